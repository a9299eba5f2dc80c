import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { buildRules } from '../../../src/features/waf/build-rules.js'
import { FolderRules, wafRules } from '../../../src/features/waf/rules.js'
import type { Flow } from '../../../src/flow/flow.js'
import { provide } from '../../../src/policy/services.js'
import { type FlowOptions, makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'
import { writeRules } from './crs-like.js'

const silent = { info: () => undefined, error: () => undefined }

async function kitWithRules(t: Test): Promise<Kit> {
  const rules = await FolderRules.open({ rules: writeRules(t.testdir()), skip_unknown: false }, silent, buildRules)
  if (rules === undefined) throw new Error('no rules')
  t.teardown(() => rules.close())
  return new Kit('none', { more: [provide(wafRules, rules)] })
}

async function setUp(t: Test, config: object | undefined, response = false) {
  const kit = await kitWithRules(t)
  const name = response ? 'response' : 'request'
  const phase = kit.waiting([[`owasp-crs-${name}`, config]], `on_http_${name}`)
  return {
    kit,
    run: async (options: FlowOptions | Flow) => {
      const flow =
        'request' in options && options.request !== false && 'publish' in options
          ? options
          : makeFlow(options as FlowOptions)
      const outcome = outcomeOf(await phase(flow))
      const read = (field: string) => kit.read(`actions.service.owasp_crs_${name}.${field}`, flow, `on_http_${name}`)
      return { outcome, read }
    }
  }
}

const ATTACK = { url: 'http://app.example.com/?q=%3CScript%3E' }
const DENIED = '403 WAF_REQUEST_DENIED'

t.test('a request whose score reaches the threshold is denied', async (t) => {
  const { run } = await setUp(t, undefined)
  const denied = await run(ATTACK)
  t.equal(denied.outcome, DENIED)
  t.equal(denied.read('decision'), 'deny')
  t.equal(denied.read('anomaly_score'), 5)
  t.equal(denied.read('anomaly_score_threshold'), 5)
  t.same(denied.read('matched_rules'), [
    { id: 941100, message: 'Script', severity: 'CRITICAL', data: '<script within ARGS:q', variable: 'ARGS:q' }
  ])
  t.equal(denied.read('error.code'), 'WAF_REQUEST_DENIED')
  const low = await run({ headers: ['User-Agent', 'a Scanner'] })
  t.equal(low.outcome, 'goes on')
  t.equal(low.read('decision'), 'allow')
  t.equal(low.read('anomaly_score'), 2)
  t.same(low.read('matched_rules[0].id'), 913100)
  t.equal(low.read('error.code'), '')
})

t.test('threshold and paranoia of the config count more than those of the rules', async (t) => {
  t.equal((await (await setUp(t, { threshold: 6 })).run(ATTACK)).outcome, 'goes on')
  const strict = await setUp(t, { threshold: 2 })
  t.equal((await strict.run({ headers: ['User-Agent', 'scanner'] })).outcome, DENIED)
  const bracket = { url: 'http://app.example.com/?q=1%3C2' }
  t.equal((await (await setUp(t, {})).run(bracket)).outcome, 'goes on')
  t.equal((await (await setUp(t, { paranoia: 2 })).run(bracket)).outcome, DENIED)
})

t.test('without enforcement the decision is only published', async (t) => {
  for (const config of [{ enforce: false }, { on_error: 'continue' }]) {
    const { outcome, read } = await (await setUp(t, config)).run(ATTACK)
    t.equal(outcome, 'goes on', JSON.stringify(config))
    t.equal(read('decision'), 'deny')
    t.equal(read('error.code'), 'WAF_REQUEST_DENIED')
  }
})

t.test('the beginning of a body is examined if process_body is set', async (t) => {
  const form = (body: string) => ({
    method: 'POST',
    headers: ['Content-Type', 'application/x-www-form-urlencoded'],
    body: Buffer.from(body)
  })
  t.equal((await (await setUp(t, {})).run(form('q=<script'))).outcome, 'goes on')
  const { run } = await setUp(t, { process_body: true })
  t.equal((await run(form('q=<script'))).outcome, DENIED)
  t.equal((await run(form(`${'a'.repeat(4_090)}=1&q=<script`))).outcome, 'goes on', 'beyond 4 KiB')
  const more = await setUp(t, { process_body: true, body_limit: '8KiB' })
  t.equal((await more.run(form(`${'a'.repeat(4_090)}=1&q=<script`))).outcome, DENIED)
})

t.test('a body that is not what it says is refused, unless it goes on', async (t) => {
  const json = { method: 'POST', headers: ['Content-Type', 'application/json'], body: Buffer.from('{"a": x}') }
  t.equal((await (await setUp(t, { process_body: true })).run(json)).outcome, '400 WAF_BODY_INVALID')
  const lax = await setUp(t, { process_body: true, on_error: 'continue' })
  const { outcome, read } = await lax.run(json)
  t.equal(outcome, 'goes on')
  t.equal(read('error.code'), 'WAF_BODY_INVALID')
  t.equal(read('decision'), 'allow')
  const cut = { ...json, body: Buffer.from(`{"a": "${'x'.repeat(5_000)}"}`) }
  t.equal((await (await setUp(t, { process_body: true })).run(cut)).outcome, 'goes on', 'the rest is not examined')
})

t.test('rules and values can be excluded, for some requests', async (t) => {
  const outcome = async (config: object, options: FlowOptions = ATTACK) =>
    (await (await setUp(t, config)).run(options)).outcome
  t.equal(await outcome({ exclude_rule_ids: [941100] }), 'goes on')
  t.equal(await outcome({ exclude_rule_ids: [941200] }), DENIED)
  t.equal(await outcome({ exclusions: [{ rules: ['tag:attack-xss'] }] }), 'goes on')
  t.equal(await outcome({ exclusions: [{ rules: [941100], targets: ['ARGS:q'] }] }), 'goes on')
  t.equal(await outcome({ exclusions: [{ rules: [941100], targets: ['ARGS:other'] }] }), DENIED)
  const admins = [{ when: "req.url.path.startsWith('/admin')", rules: [941100] }]
  t.equal(await outcome({ exclusions: admins }), DENIED)
  t.equal(await outcome({ exclusions: admins }, { url: 'http://app.example.com/admin?q=%3Cscript' }), 'goes on')
})

t.test('rules that evaluate the score stay', async (t) => {
  const kit = await kitWithRules(t)
  const problems = (config: object) => kit.problems('owasp-crs-request', config)
  t.match(problems({ exclude_rule_ids: [949110] }), [/^error WAF_RULE_REQUIRED .*exclude_rule_ids\[0\]: rule 949110/])
  t.match(problems({ exclusions: [{ rules: [980170] }] }), [/WAF_RULE_REQUIRED/])
  t.match(problems({ exclusions: [{ rules: [941100], targets: ['NOTHING:q'] }] }), [/CONFIG_INVALID .*"NOTHING:q"/])
  t.match(problems({ exclude_rule_ids: [7] }), [/CONFIG_INVALID/])
  t.match(problems({ body_limit: '1MiB' }), [/CONFIG_INVALID/])
  t.match(problems({ exclusions: [{ when: 'req.nothing', rules: [941100] }] }), [/EXPRESSION/])
})

t.test('responses are examined with their body', async (t) => {
  const { run } = await setUp(t, { process_body: true }, true)
  const response = (body: Uint8Array, ...headers: string[]) => ({
    response: { headers: ['Content-Type', 'text/html', ...headers], body }
  })
  const leak = Buffer.from('<?php echo 1')
  const denied = await run(response(leak))
  t.equal(denied.outcome, '403 WAF_RESPONSE_DENIED')
  t.equal(denied.read('anomaly_score'), 4)
  t.equal(denied.read('matched_rules[0].id'), 953100)
  t.equal((await run(response(Buffer.from('hello')))).outcome, 'goes on')
  t.equal((await run(response(gzipSync(leak), 'Content-Encoding', 'gzip'))).outcome, '403 WAF_RESPONSE_DENIED')
  t.equal((await run(response(leak, 'Content-Encoding', 'gzip'))).outcome, '400 WAF_BODY_INVALID')
  const large = gzipSync(Buffer.concat([leak, Buffer.alloc(4 * 1024 * 1024)]))
  t.equal(
    (await run(response(large, 'Content-Encoding', 'gzip'))).outcome,
    '403 WAF_RESPONSE_DENIED',
    'its start is enough'
  )
  t.equal((await run({ response: { headers: ['Content-Type', 'image/png'], body: leak } })).outcome, 'goes on')
  const heads = await setUp(t, {}, true)
  t.equal((await heads.run(response(leak))).outcome, 'goes on', 'without process_body')
})

t.test('without rules the actions are refused with what to do', (t) => {
  t.same(new Kit().problems('owasp-crs-request', {}), [], 'a check alone knows no folder')
  const [problem] = new Kit('none', { more: [provide(wafRules, undefined)] }).problems('owasp-crs-request', {})
  t.match(problem, /WAF_RULES_MISSING .*waf\.rules/)
  t.end()
})
