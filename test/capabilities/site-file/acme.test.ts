import t from 'tap'
import { newVersionKey, readSiteFile } from '../../../src/capabilities/site-file/declared/site-file.js'
import { type SiteFileInput, uncheckedPolicies } from '../../../src/capabilities/site-file/declared/site-input.js'
import { systemClock } from '../../../src/lib/clock.js'
import { makeServerCertificate } from '../../../src/lib/self-signed.js'
import { readListener } from '../../../src/options/values.js'

const HTTPS = 'listeners: [http://127.0.0.1:8081, https://127.0.0.1:8443]\n'
const AGREED = 'acme: { agree_to_terms: true }\n'

async function read(text: string, files: Readonly<Record<string, string>> = {}, about: Partial<SiteFileInput> = {}) {
  const { file, problems } = await readSiteFile({
    source: 'sluice.yaml',
    folder: '/etc/sluice',
    text,
    environment: { HMAC: 'hush' },
    async readFile(path) {
      const found = files[path.replace('/etc/sluice/', '')]
      if (found === undefined) throw Object.assign(new Error(path), { code: 'ENOENT' })
      return found
    },
    policyProblems: uncheckedPolicies,
    listFolder: async () => [],
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set(),
    ...about
  })
  const told = problems.flatMap((one) =>
    one.problems.map(({ severity, line, column, code, message }) => `${severity} ${line}:${column} ${code} ${message}`)
  )
  return { certificates: file?.certificates, told }
}

const hostsOf = async (...given: Parameters<typeof read>) =>
  (await read(...given)).certificates?.hosts.map(({ host }) => host)

t.test('three lines give HTTPS', async (t) => {
  const { certificates, told } = await read(`${HTTPS}${AGREED}sites: { shop.example.com: http://127.0.0.1:3000 }\n`)
  t.same(told, [])
  t.same(certificates, {
    authority: {},
    line: { line: 2 },
    keyType: 'ecdsa',
    hosts: [{ host: 'shop.example.com', line: 3 }]
  })
})

t.test('every key of acme', async (t) => {
  const { cert } = await makeServerCertificate('CN=ca', ['ca'], { now: Date.now(), life: 1_000_000 })
  const acme = `acme:
  agree_to_terms: true
  email: operator@example.com
  directory: https://ca.example.com/directory
  ca: ca.pem
  key_type: rsa
  external_account: { key_id: abc, key: { env: HMAC } }
sites: {}
`
  const { certificates, told } = await read(acme, { 'ca.pem': cert })
  t.same(told, [])
  t.same(certificates, {
    authority: {
      directory: 'https://ca.example.com/directory',
      email: 'operator@example.com',
      ca: cert,
      externalAccount: { kid: 'abc', hmacKey: 'hush' }
    },
    line: { line: 1 },
    keyType: 'rsa',
    hosts: []
  })
})

t.test('what is wrong with acme has its place', async (t) => {
  const cases: readonly [string, RegExp][] = [
    ['{ email: a@example.com }', /error 1:1 FIELD_REQUIRED .*agree_to_terms: true/],
    ['{ agree_to_terms: false }', /error 1:25 FIELD_REQUIRED/],
    ['{ agree_to_terms: true, email: someone }', /error 1:38 FIELD_INVALID email/],
    ['{ agree_to_terms: true, directory: ftp://x }', /error 1:42 FIELD_INVALID directory/],
    ['{ agree_to_terms: true, ca: gone.pem }', /error 1:35 FILE_UNREADABLE/],
    ['{ agree_to_terms: true, key_type: dsa }', /error 1:41 FIELD_INVALID key_type must be ecdsa or rsa/],
    ['{ agree_to_terms: true, external_account: { key_id: a } }', /FIELD_REQUIRED an external account/],
    ['{ agree_to_terms: true, external_account: { key_id: a, key: hush } }', /SECRET_LITERAL/],
    ['{ agree_to_terms: true, mail: x }', /error 1:31 FIELD_UNKNOWN .*email/]
  ]
  for (const [acme, expected] of cases) {
    const { told } = await read(`acme: ${acme}\nsites: {}\n`)
    t.match(told, [expected], acme)
    t.equal(told.length, 1, acme)
  }
})

t.test('a site that clients reach by TLS without a certificate is told with what to do', async (t) => {
  const { told } = await read(`${HTTPS}sites:\n  shop.example.com: http://127.0.0.1:3000\n`)
  t.match(told, [
    /^warning 3:3 CERTIFICATE_NONE .*shop\.example\.com.*acme: \{ agree_to_terms: true \}.*certificate: none/
  ])
  const site = (more: string) => `${HTTPS}sites: { shop.example.com: { backend: http://127.0.0.1:3000, ${more} } }\n`
  t.same((await read(site('certificate: none'))).told, [], 'on purpose')
  t.match((await read(site('certificate: managed'))).told, [/^error .*CERTIFICATE_NONE/])
  t.match((await read(site('certificate: maybe'))).told, [/FIELD_INVALID certificate must be/])
  t.same((await read('listeners: [http://127.0.0.1:80]\nsites: { a.example.com: http://127.0.0.1:1 }\n')).told, [])
})

t.test('which hosts get a managed certificate', async (t) => {
  const { cert, key } = await makeServerCertificate('CN=a', ['*.example.org'], { now: Date.now(), life: 86_400_000 })
  const files = { 'a.pem': cert, 'a.key': key }
  const listed = 'certificates: [{ certificate: a.pem, key: a.key }]\n'
  const sites = `sites:
  a.example.org: http://127.0.0.1:1
  b.example.org: { backend: http://127.0.0.1:1, certificate: managed }
  c.example.com: { backend: http://127.0.0.1:1, hosts: [d.example.com, e.example.com:8081] }
  f.example.com: { backend: http://127.0.0.1:1, certificate: none }
  localhost: http://127.0.0.1:1
  "*.example.net": http://127.0.0.1:1
`
  const text = HTTPS + AGREED + listed + sites
  t.same(await hostsOf(text, files), ['b.example.org', 'c.example.com', 'd.example.com'])
  const { told } = await read(text, files)
  t.match(told, [/localhost/, /\*\.example\.net.*proved by DNS/])
  const own = `${HTTPS}sites: { a.example.org: { backend: http://127.0.0.1:1, certificate: { certificate: a.pem, key: a.key } } }`
  t.same((await read(own, files)).told, [], 'the files of a certificate may stand with the site')
  const process = { agreed: true, tls: true }
  t.same(await hostsOf('sites: { a.example.com: http://127.0.0.1:1 }\n', {}, { process }), ['a.example.com'])
})
