import t from 'tap'
import { hostPatterns } from '../../src/lib/host.js'
import { type CompiledEdge, HostTable, PathTable } from '../../src/runtime/http-edges.js'
import type { HostPort } from '../../src/runtime/plan.js'
import { random as seeded, whole } from '../features/rate-limit/limiter/support/random.js'

function edge(id: string, ...hostports: string[]): CompiledEdge {
  const hosts = hostports.map((text): HostPort => {
    const [host = '', port = '443'] = text.split(':')
    return { host, port: Number(port) }
  })
  return {
    id,
    name: id,
    hosts,
    routes: PathTable.empty,
    connectPolicy: undefined,
    tls: undefined,
    protocol: 'https',
    yields: false
  }
}

const every: CompiledEdge = { ...edge('every'), hosts: 'every' }

t.test('the exact host goes before the longest wildcard, and that before every host', async (t) => {
  const names = ['a.example.com', '*.example.com', '*.b.example.com']
  const hosts = HostTable.empty.with([every, ...names.map((name) => edge(name, name))], [])
  const cases: [host: string, found: string][] = [
    ['a.example.com', 'a.example.com'],
    ['c.example.com', '*.example.com'],
    ['x.b.example.com', '*.b.example.com'],
    ['y.x.b.example.com', '*.b.example.com'],
    ['b.example.com', '*.example.com'],
    ['example.com', 'every'],
    ['evilexample.com', 'every']
  ]
  for (const [host, found] of cases) t.equal(hosts.find(host)?.id, found, host)
})

t.test('a host with a port is found at the listener with that port alone, one without at each', async (t) => {
  const plain: CompiledEdge = { ...edge('plain', 'p.test:80', 'q.test:8080'), protocol: 'http' }
  const hosts = HostTable.empty.with(
    [edge('admin', 'admin.test:9443', '*.w.test:9443'), edge('both', 'both.test', 'both.test:9443'), plain, every],
    []
  )
  const cases: [host: string, own: number, found: string][] = [
    ['admin.test', 9443, 'admin'],
    ['admin.test', 443, 'every'],
    ['admin.test', 80, 'every'],
    ['admin.test', 0, 'every'],
    ['x.w.test', 9443, 'admin'],
    ['x.w.test', 8443, 'every'],
    ['both.test', 9443, 'both'],
    ['both.test', 8080, 'both'],
    ['p.test', 8080, 'plain'],
    ['q.test', 8080, 'plain'],
    ['q.test', 8081, 'every']
  ]
  for (const [host, own, found] of cases) t.equal(hosts.find(host, undefined, own)?.id, found, `${host} at ${own}`)
  t.equal(hosts.at('both.test', undefined, 9443)?.endpoint?.port, 9443)
  t.equal(hosts.at('both.test', undefined, 80)?.endpoint?.port, 443)
  t.same(hosts.portsOf('both.test'), [443, 9443])
  t.same(hosts.portsOf('x.w.test'), [9443])
  t.same(hosts.portsOf('none.test'), [])
})

t.test('a star behind other labels stands for one, and * for every host that is left', async (t) => {
  const names = ['a.*.x.test', '*.x.test', 'a.b.*.test.io', '*.b.c.test.io', '*', 'exact.x.test']
  const yielding = { ...edge('agent', 'agent.test'), yields: true }
  let hosts = HostTable.empty.with(
    [yielding, every, edge('port', '*:9443'), ...names.map((name) => edge(name, name))],
    []
  )
  const cases: [host: string, found: string][] = [
    ['exact.x.test', 'exact.x.test'],
    ['a.b.x.test', 'a.*.x.test'],
    ['a.b.c.x.test', '*.x.test'],
    ['c.b.x.test', '*.x.test'],
    ['a.b.c.test.io', '*.b.c.test.io'],
    ['a.b.d.test.io', 'a.b.*.test.io'],
    ['agent.test', 'agent'],
    ['192.0.2.1', '*'],
    ['x.test', '*']
  ]
  for (const [host, found] of cases) {
    t.equal(hosts.find(host, undefined, 8080)?.id, found, host)
    const first = hostPatterns(host).find((name) => [...names, 'agent.test'].includes(name))
    t.equal(first?.replace('agent.test', 'agent'), found, `${host} as hostPatterns says`)
  }
  t.equal(hosts.find('none.test', undefined, 9443)?.id, 'port', 'a catch-all of a port')
  t.equal(hosts.find('none.test', 80)?.id, 'every', 'no catch-all has the public port')
  hosts = hosts.with([], [edge('a.*.x.test', 'a.*.x.test'), edge('*', '*')])
  t.equal(hosts.find('a.b.x.test', undefined, 8080)?.id, '*.x.test')
  t.equal(hosts.find('none.test', undefined, 8080)?.id, 'every')
})

t.test('a host on several ports belongs to the edge on 443, else to the lowest port', async (t) => {
  const high = edge('high', 'a.test:8443')
  const low = edge('low', 'a.test:80', 'b.test:80')
  const tls = edge('tls', 'a.test:443')
  let hosts = HostTable.empty.with([high], [])
  t.equal(hosts.find('a.test')?.id, 'high')
  hosts = hosts.with([low], [])
  t.equal(hosts.find('a.test')?.id, 'low')
  t.equal(hosts.find('b.test')?.id, 'low')
  hosts = hosts.with([tls], [])
  t.equal(hosts.find('a.test')?.id, 'tls')
  t.equal(hosts.find('a.test', undefined, 8443)?.id, 'high', 'the own port of a listener is preferred')
  t.equal(hosts.find('b.test', undefined, 8443), undefined, 'its port is another one')
  hosts = hosts.with([], [tls])
  t.equal(hosts.find('a.test')?.id, 'low', 'who stood behind comes forward')
  hosts = hosts.with([edge('low', 'b.test:80')], [low])
  t.equal(hosts.find('a.test')?.id, 'high')
})

t.test('a listener that knows its public port serves the edges with this port only', async (t) => {
  const hosts = HostTable.empty.with([edge('one', 'a.test:443'), edge('two', 'a.test:8443', '*.w.test:8443')], [])
  t.equal(hosts.find('a.test', 443)?.id, 'one')
  t.equal(hosts.find('a.test', 8443)?.id, 'two')
  t.equal(hosts.find('x.w.test', 8443)?.id, 'two')
  t.equal(hosts.find('x.w.test', 443), undefined)
  t.equal(hosts.find('a.test', 80), undefined)
  t.equal(hosts.with([every], []).find('a.test', 80)?.id, 'every')
})

t.test('a table that is changed leaves the one before as it was', async (t) => {
  const one = edge('one', 'a.test')
  const before = HostTable.empty.with([one], [])
  const after = before.with([], [one])
  t.equal(before.find('a.test')?.id, 'one')
  t.equal(after.find('a.test'), undefined)
})

t.test(
  'an edge that yields serves what no other edge asks for, by name or wildcard, and has it again later',
  async (t) => {
    const agent = { ...edge('agent', 'a.test:443'), yields: true }
    const named = edge('named', 'a.test:8443')
    const above = edge('above', '*.test:8443')
    let hosts = HostTable.empty.with([agent, { ...edge('every'), hosts: 'every' }], [])
    t.equal(hosts.find('a.test')?.id, 'agent')
    hosts = hosts.with([above], [])
    t.equal(hosts.find('a.test')?.id, 'above')
    hosts = hosts.with([named], [above])
    t.equal(hosts.find('a.test')?.id, 'named', 'another port, because a request may name none')
    hosts = hosts.with([], [named])
    t.equal(hosts.find('a.test')?.id, 'agent')
  }
)

t.test('what a table finds follows from its edges, in whatever order they came and went', async (t) => {
  const random = seeded(20_261_122)
  const names = ['a.w.test', 'b.w.test', '*.w.test', '*.test', 'b.test']
  const places = names.flatMap((name) => [443, 80, 8443].map((port) => `${name}:${port}`))
  let table = HostTable.empty
  const held = new Map<string, CompiledEdge>()
  for (let step = 0; step < 600; step++) {
    const id = `e${whole(random, 0, 9)}`
    const former = held.get(id)
    held.delete(id)
    const next = { ...edge(id, ...places.filter(() => random() < 0.15)), yields: whole(random, 0, 3) === 0 }
    if (random() < 0.7) held.set(id, next)
    table = table.with([...held.values()].includes(next) ? [next] : [], former === undefined ? [] : [former])
    const fresh = HostTable.empty.with(
      [...held.values()].sort(() => random() - 0.5),
      []
    )
    for (const host of ['a.w.test', 'b.w.test', 'c.w.test', 'b.test', 'c.test']) {
      for (const port of [undefined, 443, 80, 8443]) {
        const [found, expected] = [table.at(host, port), fresh.at(host, port)]
        if (found?.edge !== expected?.edge || found?.endpoint?.port !== expected?.endpoint?.port) {
          t.fail(`step ${step}: ${host}:${port} is ${found?.edge.id} and at a fresh start ${expected?.edge.id}`)
          return
        }
      }
    }
  }
  t.pass()
})
