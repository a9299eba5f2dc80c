import { type CompiledEdge, HostTable, PathTable, type Route } from '../src/runtime/http-edges.js'
import { type MicroResult, timed } from './timing.js'

/** Host and path → route, in a table of 10,000 hosts whose edges have 10,000 routes in common. */
export function routesMicro(): MicroResult[] {
  const routes = PathTable.of(Array.from({ length: 10_000 }, (_, i) => route(`/api/v1/resource-${i}`)))
  const edges: CompiledEdge[] = []
  for (let i = 0; i < 10_000; i++) {
    const host = i % 10 === 0 ? `*.wild-${i}.example.com` : `host-${i}.example.com`
    edges.push({
      id: host,
      name: host,
      hosts: [{ host, port: 443 }],
      routes,
      connectPolicy: undefined,
      tls: undefined,
      protocol: 'https',
      yields: false
    })
  }
  const hosts = HostTable.empty.with(edges, [])
  const requests = Array.from({ length: 1_024 }, (_, i): [string, string] => {
    const host = i % 10 === 0 ? `a.b.wild-${i}.example.com` : `host-${i}.example.com`
    return [host, `/api/v1/resource-${i % 100}/items/${i}`]
  })
  let at = 0
  let found = 0
  const nanoseconds = timed(1_000_000, () => {
    const [host, path] = requests[at++ & 1_023] as [string, string]
    if (hosts.find(host)?.routes.find(path) !== undefined) found++
  })
  return [
    {
      name: 'route: 10,000 hosts, 10,000 routes, prefix two segments up',
      nanoseconds,
      note: found > 0 ? '' : 'found nothing'
    }
  ]
}

function route(path: string): Route {
  return {
    id: path,
    edge: 'e',
    match: 'prefix',
    path,
    upstream: undefined,
    modules: null,
    name: { own: undefined, path }
  }
}
