import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

const MAIN = join(process.cwd(), 'dist-test', 'src', 'main.js')

/** Runs `sluice` with these words to its end. */
function sluice(cwd: string, ...words: string[]) {
  const { status, stdout } = spawnSync(process.execPath, [MAIN, ...words], { cwd, encoding: 'utf8', timeout: 60_000 })
  return { status, stdout }
}

const SITE =
  'sites: { a.test: { policy: p.yaml, backend: web } }\nbackends: { web: { servers: ["http://127.0.0.1:1"] } }\n'
const DENY = 'on_http_request:\n  - actions:\n      - type: deny\n'

t.test('sluice check judges a site file with the policies that it names', async (t) => {
  const good = t.testdir({ 'sluice.yaml': SITE, 'p.yaml': DENY })
  t.same(sluice(good, 'check', 'sluice.yaml'), {
    status: 0,
    stdout: '1 file: 1 valid (0 errors, 0 warnings)\n'
  })
  const bad = t.testdir({
    'sluice.yaml': SITE.replace('backend: web', 'backend: wbe'),
    'p.yaml': `${DENY}nonsense: 1\n`
  })
  const { status, stdout } = sluice(bad, 'check', 'sluice.yaml')
  t.equal(status, 1)
  t.match(stdout, /^sluice\.yaml:1:45: error NAME_UNKNOWN: there is no backend "wbe"; did you mean "web"\?/)
  t.match(stdout, /\np\.yaml:4:1: error /)
  t.match(stdout, /\n2 files: 2 with errors \(2 errors, 0 warnings\)\n$/)
  const [line = ''] = sluice(bad, 'check', '--json', 'sluice.yaml').stdout.split('\n')
  t.match(JSON.parse(line), { file: 'sluice.yaml', ok: false, errors: [{ line: 1, column: 45, code: 'NAME_UNKNOWN' }] })
})

t.test('sluice schema --site describes every key, secrets as references and lists by name', async (t) => {
  const { status, stdout } = sluice(t.testdir(), 'schema', '--site')
  t.equal(status, 0)
  const schema = JSON.parse(stdout)
  const site = schema.properties.sites.additionalProperties.anyOf[1].properties
  t.match(Object.keys(schema.properties), ['listeners', 'acme', 'certificates', 'certificate_authorities'])
  t.ok(site.webhook_verification.anyOf[1].properties.secret.oneOf, 'a secret is a reference')
  t.same(Object.keys(site.ip_restriction.anyOf[1].properties), ['enabled', 'ip_policies'])
  t.notMatch(stdout, /_ids"/)
})
