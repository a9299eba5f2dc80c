import t from 'tap'
import { policyProblems } from '../../../src/app/policy-check.js'
import { offline, policyServices } from '../../../src/app/services.js'
import { newVersionKey, readSiteFile } from '../../../src/capabilities/site-file/declared/site-file.js'
import { actions } from '../../../src/features/registry.js'
import { systemClock } from '../../../src/lib/clock.js'
import { readListener } from '../../../src/options/values.js'

async function read(text: string) {
  return await readSiteFile({
    source: 'sluice.yaml',
    folder: '/etc/sluice',
    text,
    environment: {},
    readFile: async (path) => {
      throw Object.assign(new Error(path), { code: 'ENOENT' })
    },
    policyProblems: policyProblems(policyServices(offline(actions)), actions),
    listFolder: async () => [],
    readListener,
    opened: new Map(),
    clock: systemClock,
    versionKey: newVersionKey(),
    zone: 'localhost',
    refuseExpired: true,
    policed: new Set()
  })
}

async function problemsOf(text: string): Promise<string[]> {
  const { problems } = await read(text)
  return problems.flatMap((one) => one.problems.map(({ line, column, message }) => `${line}:${column} ${message}`))
}

t.test('a site with tls: passthrough is a TCP edge whose names a TLS listener passes on', async (t) => {
  const { file, problems } = await read(`
listeners: [https://127.0.0.1:8443]
acme: { agree_to_terms: true }
sites:
  own.example.com:
    tls: passthrough
    hosts: ["*.own.example.com", "own.example.com:8443"]
    backend: https://10.0.0.5:8443
    description: ends TLS itself
    policy: { on_tcp_connect: [{ actions: [{ type: log, config: { metadata: { a: b } } }] }] }
  web.example.com: { backend: "http://10.0.0.6", certificate: none }
`)
  t.same(problems, [])
  const units = [...(file?.units.values() ?? [])]
  const edge = units.find((unit) => unit.kind === 'edge' && unit.passthrough === true)
  t.match(edge, {
    hosts: [
      { host: 'own.example.com', port: 443 },
      { host: '*.own.example.com', port: 443 },
      { host: 'own.example.com', port: 8443 }
    ]
  })
  const tcp = units.find(({ kind }) => kind === 'tcp_edge')
  t.match(tcp, { ports: [], upstream: /^upstream:/, modules: { traffic_policy: { policy: /^policy:/ } } })
  t.equal(edge?.kind === 'edge' && edge.id, tcp?.kind === 'tcp_edge' && tcp.id)
  t.match(file?.byId.get(`tcp_edge ${edge?.kind === 'edge' ? edge.id : ''}`)?.label, 'site own.example.com')
  t.same(
    file?.certificates.hosts.map(({ host }) => host),
    [],
    'nobody orders a certificate for it'
  )
  t.equal(units.filter(({ kind }) => kind === 'route').length, 1, 'it has no route')
})

t.test('what belongs to HTTP or to certificates of ours is refused there, with the reason and its place', async (t) => {
  const site = (more: string) =>
    `sites:\n  own.example.com:\n    tls: passthrough\n    backend: tcp://10.0.0.5:8443\n    ${more}\n`
  t.same(await problemsOf(site('routes: { /: "http://a" }')), [
    '5:5 routes is not possible with tls: passthrough, because the requests are encrypted here'
  ])
  t.match(await problemsOf(site('compression: true')), [/^5:5 compression .* the requests are encrypted here$/])
  for (const more of ['certificate: managed', 'mutual_tls: { certificate_authorities: [a] }', 'tls_termination: {}'])
    t.match(await problemsOf(site(more)), [/^5:5 \w+ .* the backend ends TLS with its own certificate$/])
  t.match(await problemsOf('sites: { a.example.com: { tls: passthrough } }'), [/needs a backend$/])
  t.match(await problemsOf('sites: { a.example.com: { tls: on, backend: "tcp://a:1" } }'), [
    /must be passthrough; leave/
  ])
  t.match(await problemsOf('tcp: { "a:1": { tls: passthrough, backend: "tcp://a:1" } }'), [/"tls"/])
  t.match(await problemsOf('sites: { a.internal: { tls: passthrough, backend: "tcp://a:1" } }'), [
    /must not be internal/
  ])
})

t.test('a name is passed on or ended, never both', async (t) => {
  const text = `sites:
  a.example.com: { tls: passthrough, backend: "tcp://10.0.0.5:8443" }
  b.example.com: { backend: "http://10.0.0.6", hosts: [a.example.com] }
`
  t.match(await problemsOf(text), [/^3:\d+ hostports.* is taken by site a\.example\.com/])
})
