import t from 'tap'
import { runCommand } from '../../cli/command.js'

/** Runs `sluice` with these words to its end. */
function sluice(cwd: string, ...words: string[]) {
  return runCommand(t, words, { cwd })
}

const SITE =
  'sites: { a.test: { policy: p.yaml, backend: web } }\nbackends: { web: { servers: ["http://127.0.0.1:1"] } }\n'
const DENY = 'on_http_request:\n  - actions:\n      - type: deny\n'

t.test('sluice check judges a site file with the policies that it names', async (t) => {
  const good = t.testdir({ 'sluice.yaml': SITE, 'p.yaml': DENY })
  t.same(await sluice(good, 'check', 'sluice.yaml'), {
    code: 0,
    out: '1 file: 1 valid (0 errors, 0 warnings)',
    err: ''
  })
  const bad = t.testdir({
    'sluice.yaml': SITE.replace('backend: web', 'backend: wbe'),
    'p.yaml': `${DENY}nonsense: 1\n`
  })
  const { code, out } = await sluice(bad, 'check', 'sluice.yaml')
  t.equal(code, 1)
  t.match(out, /^sluice\.yaml:1:45: error NAME_UNKNOWN: there is no backend "wbe"; did you mean "web"\?/)
  t.match(out, /\np\.yaml:4:1: error /)
  t.match(out, /\n2 files: 2 with errors \(2 errors, 0 warnings\)$/)
  const [line = ''] = (await sluice(bad, 'check', '--json', 'sluice.yaml')).out.split('\n')
  t.match(JSON.parse(line), { file: 'sluice.yaml', ok: false, errors: [{ line: 1, column: 45, code: 'NAME_UNKNOWN' }] })
})

t.test('sluice schema --site describes every key, secrets as references and lists by name', async (t) => {
  const { code, out } = await sluice(t.testdir(), 'schema', '--site')
  t.equal(code, 0)
  const schema = JSON.parse(out)
  const site = schema.properties.sites.additionalProperties.anyOf[1].properties
  t.match(Object.keys(schema.properties), ['listeners', 'acme', 'certificates', 'certificate_authorities'])
  t.ok(site.webhook_verification.anyOf[1].properties.secret.oneOf, 'a secret is a reference')
  t.same(Object.keys(site.ip_restriction.anyOf[1].properties), ['enabled', 'ip_policies'])
  // Numbers of rules are no ids of records.
  t.notMatch(out, /"(?!exclude_rule_ids)\w*_ids"/)
})

t.test('sluice check warns of a backend that is a listener of the file', async (t) => {
  const file = (url: string) =>
    `listeners: ["http://0.0.0.0:8090"]\nsites: { a.test: { backend: web } }\nbackends: { web: { servers: ["${url}"] } }\n`
  const warned = async (url: string) => (await sluice(t.testdir({ 's.yaml': file(url) }), 'check', 's.yaml')).out
  for (const url of ['http://127.0.0.1:8090', 'http://localhost:8090', 'http://[::1]:8090'])
    t.match(await warned(url), /^s\.yaml:3:\d+: warning BACKEND_LOOP: .* is the listener in line 1/, url)
  for (const url of ['http://127.0.0.1:8091', 'http://10.0.0.5:8090', 'http://web:8090'])
    t.notMatch(await warned(url), /BACKEND_LOOP/, url)
})
