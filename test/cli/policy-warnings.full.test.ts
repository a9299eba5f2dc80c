import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { bundle, call, sluice, started, stopped, upstream } from '../capabilities/site-file/site-kit.js'
import { SluiceProcess } from './process.js'

const OPEN = `on_http_request:
  - expressions:
      - req.method == 'GET'
      - req.headers['x-token'][0] != 's3cret'
    actions:
      - type: deny
`
const SHADOWED = `on_http_request:
  - name: all of it
    expressions: ["req.url.path.startsWith('/s3cret')"]
    actions: [{ type: deny }]
  - expressions: ["req.url.path == '/s3cret/a'"]
    actions: [{ type: deny }]
`
/** What the message shows in place of the expression. */
const SAFE =
  "write !('x-token' in req.headers) || req.headers['x-token'][0] != 's3cret', or put strict_expressions: true"
const SITE = (server: string) =>
  `sites:\n  a.test: { policy: open.yaml, routes: { /: web, /b: { backend: web, policy: open.yaml } } }\nbackends: { web: { servers: ["http://${server}"] } }\n`

t.test(
  'sluice check shows place and safe form of a policy, alone and in a site file, and says that it is valid',
  async (t) => {
    const cwd = t.testdir({ 'open.yaml': OPEN, 'shadowed.yaml': SHADOWED, 'site.yaml': SITE('127.0.0.1:1') })
    const { code, out } = await sluice(cwd, 'check', 'open.yaml', 'shadowed.yaml')
    const [first, second, summary] = out.split('\n')
    t.equal(code, 0)
    t.match(first, /^open\.yaml:4:9: warning RULE_FAILS_OPEN: /)
    t.ok(first?.includes(SAFE), 'the safe form')
    t.match(
      second,
      /^shadowed\.yaml:5:19: warning RULE_SHADOWED: this rule never runs: the rule "all of it" in line 2 .* \(on_http_request\[1\]\)$/
    )
    t.equal(summary, '2 files: 2 valid (0 errors, 2 warnings)')
    const site = await sluice(cwd, 'check', 'site.yaml')
    t.match(site, {
      code: 0,
      out: /^open\.yaml:4:9: warning RULE_FAILS_OPEN: [^\n]*\n2 files: 2 valid \(0 errors, 1 warning\)$/
    })
    const json = JSON.parse((await sluice(cwd, 'check', '--json', 'open.yaml')).out)
    t.match(json, {
      ok: true,
      errors: [],
      warnings: [{ line: 4, column: 9, code: 'RULE_FAILS_OPEN' }]
    })
    t.ok(json.warnings[0].message.includes(SAFE))
    await writeFile(join(cwd, 'open.yaml'), `strict_expressions: true\n${OPEN}`)
    t.match(await sluice(cwd, 'check', 'open.yaml'), { code: 0, out: '1 file: 1 valid (0 errors, 0 warnings)' })
  }
)

t.test('files that are read at the start and anew are warned of in the log, without their text', async (t) => {
  const server = await upstream(t, 'web')
  const cwd = t.testdir({ 'sites.yaml': SITE(server), 'open.yaml': OPEN })
  const { process } = await started(t, cwd, {}, 'sites.yaml')
  const fields = { level: 40, source: 'open.yaml', path: 'on_http_request[0].expressions[1]', line: 4, column: 9 }
  t.match(await process.logged('a policy: a rule that denies'), { ...fields, code: 'RULE_FAILS_OPEN' })
  await writeFile(join(cwd, 'open.yaml'), SHADOWED)
  const found = await process.logged('a policy: a rule never runs')
  t.match(found, { code: 'RULE_SHADOWED', source: 'open.yaml', path: 'on_http_request[1]', line: 5, column: 19 })
  await process.logged('reloaded')
  const { out, err } = await stopped(process)
  t.equal(out.split('\n').filter((line) => line.includes('"code":"RULE_')).length, 2, 'once each')
  t.notMatch(out + err, /s3cret/)
})

t.test('a policy of the options is warned of, and one that is refused shows no text of its doubts', async (t) => {
  const server = await upstream(t, 'web')
  const forward = '      - type: forward-internal\n        config: { url: "https://s3cret.test" }\n'
  const cwd = t.testdir({ 'open.yaml': OPEN, 'wrong.yaml': `${OPEN.replace('deny', 'denny')}${forward}` })
  const words = (policy: string) => ['--upstream', `http://${server}`, '--policy', policy]
  const { process } = await started(t, cwd, {}, ...words('open.yaml'))
  t.match(await process.logged('a policy: a rule that denies'), { code: 'RULE_FAILS_OPEN', line: 4, column: 9 })
  const running = await stopped(process)
  const all = ['start', ...words('wrong.yaml'), '--listen', '127.0.0.1:0', '--api', '127.0.0.1:0', '--data', 'other']
  const refused = await new SluiceProcess(t, all, { cwd }).ended()
  t.match(refused, { code: 1, err: /wrong\.yaml:6:15: error ACTION_UNKNOWN: there is no action "denny"/ })
  t.match(refused.err, /wrong\.yaml:8:\d+: warning NOT_INTERNAL: sluice check shows it in full/)
  t.notMatch([running.out, running.err, refused.out, refused.err].join('\n'), /s3cret/)
})

t.test('plan and apply show the warnings of the documents, and the answer names their file', async (t) => {
  const server = await upstream(t, 'web')
  const keyed = `${OPEN}      - type: add-headers\n        config: { headers: { x-key: "\${secrets.get('main', 'key')}" } }\n`
  const cwd = t.testdir({
    'sites.yaml': SITE(server),
    'open.yaml': keyed.replace('deny', 'log\n        config: { metadata: { a: b } }\n      - type: close-connection')
  })
  const { process, api } = await started(t, cwd)
  const at = ['--api', api]
  const shown = /^open\.yaml:4:9: warning RULE_FAILS_OPEN: when req\.headers\['x-token'\] is absent/m
  const planned = await sluice(cwd, 'plan', 'sites.yaml', ...at)
  t.match(planned, { code: 2, err: shown })
  t.match(planned.err, /^open\.yaml:\d+:\d+: warning UNIT_MISSING: there is no secret "key" in a vault "main" yet/m)
  t.match(await sluice(cwd, 'apply', 'sites.yaml', '--yes', ...at), { code: 0, err: shown })
  await writeFile(join(cwd, 'open.yaml'), SHADOWED)
  const { status, body } = await call(api, 'PUT', '/site', bundle(cwd, ['open.yaml'], 'sites.yaml'))
  t.equal(status, 200)
  t.match(body.warnings, [{ file: 'open.yaml', code: 'RULE_SHADOWED', line: 5, column: 19, length: 29 }])
  t.equal(body.warnings.length, 1, 'two routes have the document, which is one')
  const { out } = await stopped(process)
  const logged = out.split('\n').filter((line) => line.includes('"code":"RULE_'))
  t.equal(logged.length, 2, 'once each')
  t.notMatch(out, /s3cret/)
})
