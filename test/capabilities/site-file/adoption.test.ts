import t from 'tap'
import { stringify } from 'yaml'
import { Adopter } from '../../../src/capabilities/site-file/declared/adopter.js'
import type { Found } from '../../../src/capabilities/site-file/declared/adoption-form.js'
import * as table from '../../../src/capabilities/site-file/declared/fields.js'
import { newVersionKey, readSiteFile, type SiteFile } from '../../../src/capabilities/site-file/declared/site-file.js'
import { uncheckedPolicies } from '../../../src/capabilities/site-file/declared/site-input.js'
import { systemClock } from '../../../src/lib/clock.js'
import { makeAuthority, makeServerCertificate } from '../../../src/lib/self-signed.js'
import { readListener } from '../../../src/options/values.js'

const now = Date.now()
const life = 86_400_000 * 9
const versionKey = newVersionKey()

async function read(text: string, files: ReadonlyMap<string, string>): Promise<SiteFile> {
  const { file, problems } = await readSiteFile({
    source: 'sites.yaml',
    folder: '/etc/sluice',
    text,
    environment: {},
    async readFile(_path, name) {
      const found = files.get(name)
      if (found === undefined) throw Object.assign(new Error(name), { code: 'ENOENT' })
      return found
    },
    listFolder: async () => [],
    policyProblems: uncheckedPolicies,
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey,
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set()
  })
  const errors = problems.flatMap((one) => one.problems.filter(({ severity }) => severity === 'error'))
  t.same(errors, [], text)
  return file as SiteFile
}

/** The records of a file by kind, as if the API had made them. */
function foundIn({ records }: SiteFile): Map<string, Found[]> {
  const found = new Map<string, Found[]>()
  for (const { resource, record } of records) {
    found.set(resource.name, [...(found.get(resource.name) ?? []), { record, revision: 1 }])
  }
  return found
}

/** What the records say, whatever their names; ids are the kind of what they name. */
function meaning({ records }: SiteFile): string[] {
  const kinds = records.map(({ record: { id, kind } }) => [id, kind] as const)
  const all = records.map(({ record: { kind, body, secrets } }) => {
    const { updated_at: _clock, ...rest } = body
    return kinds.reduce((text, [id, of]) => text.replaceAll(id, of), JSON.stringify([kind, rest, secrets]))
  })
  return all.sort()
}

const SITES = `
certificates: [{ certificate: shop.pem, key: shop.key, description: Shop }]
certificate_authorities: { clients: { ca: ca.pem, metadata: of clients } }
ip_policies: { office: { allow: [10.0.0.0/8], deny: [10.1.0.0/16], metadata: m } }
ip_restrictions: { endpoints: { ip_policies: [office], enforced: true }, api: { ip_policies: [office], enforced: false } }
vaults: { keys: { one: { file: one.txt } } }
sites:
  shop.test:
    hosts: [www.shop.test]
    redirect: off
    mutual_tls: { certificate_authorities: [clients] }
    tls_termination: { min_version: "1.3" }
    path_form: lenient
    hsts: { max_age: 600 }
    description: Shop
    metadata: edge
    compression: true
    error_pages: { 404: 404.html, 5xx: { body: oops } }
    routes:
      /: web
      /api/: { backend: both, ip_restriction: { ip_policies: [office] }, compression: false, policy: p.yaml }
      /hook: { backend: tea, webhook_verification: { provider: github, secret: { vault: keys/one } } }
      /static/: pub
  passed.test: { tls: passthrough, backend: web, hosts: [two.test] }
tcp: { "127.0.0.1:9001": { backend: web, ip_restriction: { ip_policies: [office] }, metadata: tcp } }
backends:
  web:
    servers: [https://127.0.0.1:3000]
    health: { path: /up }
    passive_health: { failures: 4 }
    max_connections: 100
    queue: { length: 5 }
    retries: { attempts: 2 }
    timeouts: { connect: 2 }
    upgrades: [tcp]
    lenient: true
    proxy_protocol: v2
    tls: { server_name: a.test, min_version: "1.3", client_certificate: { certificate: shop.pem, key: shop.key } }
  both: { backends: { web: 3, tea: 1 }, balance: hash, hash_key: conn.client_ip, slow_start: 5, panic_threshold: 30 }
  over: { balance: failover, backends: [both, tea] }
  tea: { response: { status_code: 418, body: tea, headers: { x-tea: green } }, metadata: tea }
  tunnels: { labels: { app: web }, balance: least_requests, sticky: { cookie: at, ttl: 60 } }
  pub:
    files: /srv/pub
    index: [a.html]
    fallback: /a.html
    precompressed: [br]
    cache: { "*.js": 1y immutable }
    listing: true
    follow_links: true
`

t.test('what a site file says is said again when its records are adopted', async (t) => {
  const [pair, { cert }] = await Promise.all([
    makeServerCertificate('CN=shop.test', ['shop.test'], { now, life }),
    makeAuthority('CN=clients', { now, life })
  ])
  const files = new Map([
    ['shop.pem', pair.cert],
    ['shop.key', pair.key],
    ['ca.pem', cert],
    ['one.txt', 'a secret'],
    ['404.html', '<p>no page</p>'],
    ['p.yaml', 'on_http_request:\n  - actions:\n      - type: deny\n']
  ])
  const first = await read(SITES, files)
  const adopter = new Adopter(foundIn(first), 'serve')
  const { site, files: written, secrets } = adopter.adopt()
  const given = new Map(written.map(({ name, text }) => [name, text] as const))
  for (const { file, id, path } of secrets) {
    given.set(file, String(first.records.find(({ record }) => record.id === id)?.record.secrets[path]))
  }
  const text = stringify(site, { lineWidth: 0, aliasDuplicateObjects: false })
  t.notMatch(text, /a secret|PRIVATE KEY/)
  // A certificate of a server is one of the list too.
  const second = await read(text, given)
  const isListed = (one: string) => !one.startsWith('["tls_certificate"')
  t.same(new Set(meaning(second).filter(isListed)), new Set(meaning(first).filter(isListed)))
  t.same(adopter.left, [])
})

t.test('the file of this test has each setting of edges and backends', async (t) => {
  const { EDGE, SERVER_SETTINGS, SHARE_SETTINGS, BALANCE_SETTINGS, FILES } = table
  const keys = [EDGE, SERVER_SETTINGS, SHARE_SETTINGS, BALANCE_SETTINGS, FILES].flatMap((fields) => Object.keys(fields))
  t.ok(keys.length > 20, `${keys.length} keys`)
  t.same(
    keys.filter((key) => !SITES.includes(`${key}: `)),
    []
  )
})
