import t, { type Test } from 'tap'
import { FolderRules, wafRules } from '../../../src/features/waf/rules.js'
import { provide } from '../../../src/policy/services.js'
import { loggedFirewall, shownFirewall } from '../../../src/telemetry/firewall.js'
import { reasonOf } from '../../../src/telemetry/reason.js'
import { redact } from '../../../src/telemetry/redaction.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'
import { writeRules } from './crs-like.js'

const silent = { info: () => undefined, error: () => undefined }

async function examine(t: Test, config: object, url: string, headers: string[] = []) {
  const rules = await FolderRules.open({ rules: writeRules(t.testdir()), skip_unknown: false }, silent)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  const kit = new Kit('none', { more: [provide(wafRules, rules)] })
  const flow = makeFlow({ url, headers })
  const outcome = outcomeOf(await kit.waiting([['owasp-crs-request', config]], 'on_http_request')(flow))
  return { flow, outcome, digest: rules.current.digest, kit }
}

const ATTACK = 'http://app.example.com/?q=%3CScript%3Ealert'

t.test('a flow keeps each rule that matched, with variable, value, transformations and score', async (t) => {
  const { flow, digest } = await examine(t, {}, ATTACK, ['User-Agent', 'scanner'])
  t.match(shownFirewall(flow), [
    {
      action: 'owasp-crs-request',
      decision: 'deny',
      score: 7,
      threshold: 5,
      digest,
      rules: [
        {
          id: 913100,
          score: 2,
          variable: 'REQUEST_HEADERS:User-Agent',
          value: 'scanner',
          transformations: ['lowercase']
        },
        {
          id: 941100,
          message: 'Script',
          severity: 'CRITICAL',
          score: 5,
          variable: 'ARGS:q',
          value: '<script>alert',
          transformations: ['urlDecodeUni', 'lowercase']
        }
      ],
      omitted: 0
    }
  ])
  t.same(loggedFirewall(flow), [
    {
      action: 'owasp-crs-request',
      decision: 'deny',
      score: 7,
      threshold: 5,
      rules: [
        { id: 913100, variable: 'REQUEST_HEADERS:User-Agent', score: 2 },
        { id: 941100, variable: 'ARGS:q', score: 5 }
      ]
    }
  ])
})

t.test('a rule that matches several values has a match for each of them', async (t) => {
  const { flow } = await examine(t, {}, 'http://app.example.com/?q=%3Cscript%3E&b=1&text=a%3Cscript')
  t.match(shownFirewall(flow), [
    {
      score: 10,
      rules: [
        { id: 941100, score: 5, variable: 'ARGS:q', value: '<script>' },
        { id: 941100, score: 5, variable: 'ARGS:text', value: 'a<script' }
      ]
    }
  ])
  flow.decidedBy = { phase: 'on_http_request', rule: 'firewall', action: 'owasp-crs-request' }
  const facts = { status: 403, code: 'WAF_REQUEST_DENIED', flow, site: undefined, tries: undefined }
  t.match(reasonOf(facts), /score 10 of 5 by rule 941100$/)
})

t.test('the reason of a denial has score and rules, and no value of the request', async (t) => {
  const { flow } = await examine(t, {}, ATTACK)
  flow.decidedBy = { phase: 'on_http_request', rule: 'firewall', action: 'owasp-crs-request' }
  const facts = { status: 403, code: 'WAF_REQUEST_DENIED', flow, site: undefined, tries: undefined }
  t.equal(reasonOf(facts), '403 by owasp-crs-request, rule "firewall": score 5 of 5 by rule 941100')
  flow.refusal = { firewall: { score: 40, threshold: 5, rules: [1, 2, 3, 4, 5, 6, 7] } }
  t.match(reasonOf(facts), /: score 40 of 5 by rules 1, 2, 3, 4, 5 and 2 more$/)
})

t.test('requests that pass below the threshold or are not enforced are kept, too; others leave nothing', async (t) => {
  const low = await examine(t, {}, 'http://app.example.com/', ['User-Agent', 'scanner'])
  t.match(shownFirewall(low.flow), [{ decision: 'allow', score: 2, rules: [{ id: 913100 }] }])
  t.equal(low.flow.refusal, undefined)
  const tried = await examine(t, { enforce: false }, ATTACK)
  t.equal(tried.outcome, 'goes on')
  t.match(shownFirewall(tried.flow), [{ decision: 'would_deny', score: 5 }])
  t.equal(tried.flow.refusal, undefined)
  const harmless = await examine(t, {}, 'http://app.example.com/?q=1')
  t.same(shownFirewall(harmless.flow), [])
  t.equal(loggedFirewall(harmless.flow), undefined)
})

t.test('values of secrets are redacted, and long ones are cut', async (t) => {
  const { flow, kit } = await examine(t, {}, 'http://app.example.com/?password=%3Cscript%3Ehunter2')
  t.match(shownFirewall(flow), [{ rules: [{ variable: 'ARGS:password', value: '[redacted]' }] }])
  t.match(shownFirewall(flow, true), [{ rules: [{ value: '<script>hunter2' }] }])
  const published = kit.read('actions.service.owasp_crs_request.matched_rules', flow, 'on_http_request')
  t.match(redact(published, 0), [{ id: 941100, variable: 'ARGS:password', data: '[redacted]' }])
  const long = await examine(t, {}, `http://app.example.com/?q=%3Cscript%3E${'x'.repeat(5_000)}`)
  const [result] = shownFirewall(long.flow)
  t.equal(result?.rules[0]?.value.length, 257)
  const inside = { variable: 'QUERY_STRING', data: 'a=1&token=abc {"secret": "def"', other: 'token=abc' }
  t.same(redact(inside, 0), {
    variable: 'QUERY_STRING',
    data: 'a=1&token=[redacted]',
    other: 'token=abc'
  })
})
