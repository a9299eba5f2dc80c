import t from 'tap'
import type { HostPort } from '../../src/plan/plan.js'
import { type CompiledEdge, HostTable } from '../../src/snapshot/hosts.js'
import { PathTable } from '../../src/snapshot/routes.js'

function edge(id: string, ...hostports: string[]): CompiledEdge {
  const hosts = hostports.map((text): HostPort => {
    const [host = '', port = '443'] = text.split(':')
    return { host, port: Number(port) }
  })
  return { id, hosts, routes: PathTable.empty, connectPolicy: undefined, tls: undefined, protocol: 'https' }
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
  t.equal(hosts.find('b.test', undefined, 8443)?.id, 'low', 'where the host stands on one port alone, that one')
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
