import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { WafReport } from '../../../src/capabilities/waf/answers.js'
import { writeRules } from '../../features/waf/crs-like.js'
import { call, sluice, started, stopped, upstream } from '../site-file/site-kit.js'

const POLICY = `on_http_request:
  - name: firewall
    actions:
      - type: owasp-crs-request
        config:
          process_body: true
`

/** A rule for forms, beside those that all tests of the firewall share. */
const MORE = `
SecRule ARGS "@rx select.+from" \\
    "id:942100,phase:2,block,t:none,t:lowercase,msg:'SQL',severity:'CRITICAL',tag:'attack-sqli',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule ARGS "@contains ../" "id:930100,phase:2,block,t:none,msg:'Path',severity:'CRITICAL',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule ARGS "@contains /etc/" "id:930120,phase:2,block,t:none,msg:'File',severity:'CRITICAL',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule ARGS "@contains passwd" "id:930130,phase:2,block,t:none,msg:'Name',severity:'CRITICAL',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule ARGS "@contains <b>" \\
    "id:941110,phase:2,block,t:none,t:urlDecodeUni,t:lowercase,msg:'Tag',severity:'CRITICAL',setvar:'tx.blocking_inbound_anomaly_score=+5'"
SecRule TX:BLOCKING_INBOUND_ANOMALY_SCORE "@ge %{tx.inbound_anomaly_score_threshold}" "id:949111,phase:2,deny,t:none"
`

async function stand(t: Test, policy = POLICY) {
  const folder = t.testdir({ 'policy.yaml': policy, rules: {} })
  const rules = writeRules(join(folder, 'rules'), MORE)
  const env = {
    SLUICE_WAF_RULES: rules,
    SLUICE_RECORDER_BODIES: '4KiB',
    SLUICE_RECORDER_FILE: join(folder, 'records.jsonl'),
    SLUICE_TRUSTED_PROXIES: '127.0.0.0/8'
  }
  const words = ['--upstream', `http://${await upstream(t, 'here')}`, '--policy', 'policy.yaml']
  const { api, traffic, process } = await started(t, folder, env, ...words)
  const run = (...more: string[]) => sluice(folder, ...more, '--api', api)
  const send = async (path: string, form: Record<string, string> | undefined, client: string) => {
    const body = form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }
    const answer = await fetch(`${traffic}${path}`, { headers: { 'x-forwarded-for': client }, ...body })
    await answer.arrayBuffer()
    return answer.status
  }
  const report = async (...more: string[]) => {
    const { code, out, err } = await run('waf', 'report', '--json', ...more)
    if (code !== 0) throw new Error(err)
    return JSON.parse(out) as WafReport
  }
  return { folder, api, run, send, report, process }
}

const MARKDOWN = { text: 'The tag `<b>` makes text bold' }
const COMMENT = { text: 'Select one from the list', password: 'select x from y' }

t.test('false positives are found in recorded requests, excluded, and pass', async (t) => {
  const { folder, run, send, report, process } = await stand(t)
  for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    t.equal(await send('/comments', MARKDOWN, client), 403)
    t.equal(await send('/posts/7/notes', COMMENT, client), 403)
  }
  // A scanner matches many rules on many paths, one of them where the application is used, too.
  for (const path of ['/a', '/b', '/c'])
    t.equal(await send(path, { q: '<b> select a from b ../ /etc/passwd' }, '198.51.100.9'), 403)
  t.equal(await send('/comments', { text: '<b>' }, '198.51.100.9'), 403)
  t.equal(await send('/?q=1', undefined, '192.0.2.1'), 200)

  const plain = await report()
  t.match(plain, { exchanges: 11, clients: 4, matched: 10, denied: 10, not_judged: 0, proposals: [], proof: null })
  t.equal(plain.rules?.name, 'TEST_RULES/1.0')
  const hidden = plain.findings.find(({ variable }) => variable === 'ARGS:password')
  t.match(hidden, { path: '/posts/*/notes', rule: 942100, exchanges: 3, clients: 3, values: ['[redacted]'] })

  const trusting = await report('--trust', '192.0.2.0/24')
  t.match(trusting.proposals, [
    {
      route: 'default',
      action: 'owasp-crs-request',
      exclusions: [
        {
          when: "req.url.path.matches('^/posts/[^/]+/notes$')",
          rules: [942100],
          targets: ['ARGS:password', 'ARGS:text']
        }
      ]
    }
  ])
  t.match(trusting.withheld, [{ releases: 1, yaml: /rules: \[941110\]\n {4}targets: \["ARGS:text"\]/ }])
  t.match(trusting.proof, { denied: { before: 10, after: 7 }, hostile: { before: 7, after: 7 } })

  const text = await run('waf', 'report', '--trust', '192.0.2.0/24')
  t.equal(text.code, 0)
  t.match(text.out, /^likely: 942100 SQL$/m)
  t.match(text.out, /^ {2}default \/posts\/\*\/notes ARGS:text: 3 exchanges of 3 clients, 3 denied$/m)
  t.match(text.out, /^withheld for default: 1 exchange that looks like an attack would pass$/m)
  t.match(text.out, /^denied: 10 without the exclusions, 7 with them$/m)
  const [, yaml = ''] = /policy of default [^\n]*:\n(exclusions:\n(?: {2,4}[^\n]*\n)+)/.exec(text.out) ?? []
  writeFileSync(join(folder, 'policy.yaml'), POLICY + yaml.replaceAll(/^/gm, '          ').trimEnd())
  process.child.kill('SIGHUP')
  await process.logged('reloaded')
  t.equal(await send('/posts/8/notes', COMMENT, '192.0.2.1'), 200)
  t.equal(await send('/other', COMMENT, '192.0.2.1'), 403)
  t.equal(await send('/comments', MARKDOWN, '192.0.2.1'), 403)
  t.match(await report('--trust', '192.0.2.0/24'), { proposals: [], exchanges: 14 })
})

t.test('records, their file, the log line, explanations and replays hold what matched', async (t) => {
  const { folder, api, run, send, report, process } = await stand(t, `${POLICY}          enforce: false\n`)
  t.equal(await send('/comments', { ...MARKDOWN, password: '<b>hunter2' }, '192.0.2.1'), 200)
  t.equal(await send('/', undefined, '192.0.2.1'), 200)
  const logged = await process.logged('exchange')
  t.match(logged, {
    waf: [
      {
        decision: 'would_deny',
        score: 10,
        threshold: 5,
        rules: [
          { id: 941110, variable: 'ARGS:text' },
          { id: 941110, variable: 'ARGS:password' }
        ]
      }
    ]
  })
  const { exchanges } = (await call(api, 'GET', '/exchanges?where=exchange.waf_score%20%3E%200')).body
  t.equal(exchanges.length, 1)
  const [{ id }] = exchanges
  const { body: record } = await call(api, 'GET', `/exchanges/${id}`)
  t.match(record.waf, [
    {
      action: 'owasp-crs-request',
      path: '/comments',
      decision: 'would_deny',
      rules: [
        { id: 941110, variable: 'ARGS:text', value: 'the tag `<b>` makes text bold' },
        { id: 941110, variable: 'ARGS:password', value: '[redacted]', transformations: ['urlDecodeUni', 'lowercase'] }
      ]
    }
  ])
  t.notMatch(JSON.stringify(record), /hunter2/)
  const listed = await run('log', '--where', 'exchange.waf_score > 0')
  t.match(listed.out, /^\d\d:\d\d:\d\d\.\d+ 192\.0\.2\.1 POST [^\n]*\/comments 200 by [^\n]*$/)
  t.equal((await run('log', '--where', '942100 in exchange.waf_rules')).out, '')
  const shown = await run('log', id)
  t.match(shown.out, /firewall, owasp-crs-request: would_deny, score 10 of 5/)
  t.match(shown.out, /941110 \+5 Tag in ARGS:password: "\[redacted\]" after urlDecodeUni, lowercase/)
  const explained = await run('log', id, '--explain')
  t.match(explained.out, /firewall, owasp-crs-request: would_deny, score 5 of 5/, 'the password is not known any more')

  const recorded = await report('--possible')
  t.match(recorded, { exchanges: 2, matched: 1, denied: 1, proof: { denied: { before: 1, after: 0 } } })
  const replayed = await run('replay', '--policy', 'policy.yaml')
  t.match(replayed, { code: 0, out: /same 2, changed 0, not judged 0/ })

  const { body: har } = await call(api, 'GET', '/exchanges/har')
  writeFileSync(join(folder, 'records.har'), JSON.stringify(har))
  await stopped(process)
  t.notMatch(readFileSync(join(folder, 'records.jsonl'), 'utf8'), /hunter2/)
  const other = await started(
    t,
    folder,
    { SLUICE_WAF_RULES: join(folder, 'rules'), SLUICE_DATA: 'other' },
    '--policy',
    'policy.yaml'
  )
  const from = async (file: string) =>
    JSON.parse((await sluice(folder, 'waf', 'report', '--json', '--from', file, '--api', other.api)).out) as WafReport
  for (const file of ['records.jsonl', 'records.har'])
    t.match(await from(file), { exchanges: 2, matched: 1, denied: 1, not_judged: 1 }, file)
  t.match(await sluice(folder, 'waf', 'report', '--from', 'policy.yaml', '--api', other.api), {
    code: 2,
    err: /--from/
  })
})

t.test('a shadowed policy with the firewall reports the difference', async (t) => {
  const { api, send } = await stand(t, 'on_http_request: []\n')
  const text = POLICY.replace('process_body: true', 'process_body: false')
  const made = await call(api, 'POST', '/shadows', {
    policies: [{ route: 'default', text }],
    name: 'firewall',
    budget: '50ms'
  })
  t.equal(made.status, 201, JSON.stringify(made.body))
  t.equal(await send('/?q=%3Cscript', undefined, '192.0.2.1'), 200)
  t.equal(await send('/?q=1', undefined, '192.0.2.1'), 200)
  const { body } = await call(api, 'GET', `/shadows/${made.body.id}`)
  t.match(body.counts, { seen: 2, judged: 2, changed: 1 })
  t.match(body.matrix ?? body.differences, [{ new: { status: 403, code: 'WAF_REQUEST_DENIED' }, count: 1 }])
})

t.test('sluice test and sluice try run the rules of a folder', async (t) => {
  const folder = t.testdir({
    'p.yaml': POLICY,
    'p.test.yaml': `cases:
  - name: a script is denied
    request: { path: "/?q=%3Cscript" }
    expect: { status: 403, waf: { score: 5, rules: [941100] } }
`,
    rules: {}
  })
  writeRules(join(folder, 'rules'), MORE)
  t.match(await sluice(folder, 'test', '--waf-rules', 'rules'), { code: 0, out: /^ok p\.test\.yaml: 1 of 1 cases$/m })
  t.match(await sluice(folder, 'test'), {
    code: 1,
    out: /p\.test\.yaml:2:5: the case "a script is denied" expects results of the firewall; name its rules with --waf-rules <folder>/
  })
  const tried = await sluice(folder, 'try', 'p.yaml', 'http://app.example.com/?q=%3Cscript', '--waf-rules', 'rules')
  t.match(
    tried.out,
    /firewall, owasp-crs-request: deny, score 5 of 5\n +941100 \+5 Script in ARGS:q: "<script" after urlDecodeUni, lowercase/
  )
  t.match(await sluice(folder, 'test', '--waf-rules', 'none'), { code: 1, err: /waf\.rules|none/ })
})
