import type { Flow, FlowRequest } from '../../flow/flow.js'

/** Ports that URLs leave out. */
const USUAL_PORT = { https: 443, http: 80 } as const

/**
 * The URLs under which a sender may know the place that a request came to, for schemes that sign the URL.
 *
 * Path and query are those of the request line, untouched. Name and port are those of the edge: a name that its hostports
 * hold, with the ports that stand there; where an edge takes every host, the name that routing has found it by. A trusted
 * proxy may say that it is known by another name. The scheme is https, because senders reach an edge through TLS
 * wherever it ends, or http when this hop or a trusted proxy saw that. Senders and proxies disagree about ports, so each
 * name also stands without a port, and with the one of the request.
 */
export function publicUrls(flow: Flow, request: FlowRequest): readonly string[] {
  const { headers, target } = request
  const path = rawTarget(request)
  const schemes =
    headers.get('x-forwarded-proto')?.toLowerCase() === 'http' ? (['https', 'http'] as const) : (['https'] as const)
  const urls = new Set<string>()
  for (const authority of new Set([target.authority, headers.get('x-forwarded-host') ?? target.authority])) {
    const name = authority.replace(PORT, '')
    for (const scheme of schemes) {
      urls.add(`${scheme}://${authority}${path}`)
      urls.add(`${scheme}://${name}${path}`)
      for (const port of portsOf(flow, name.toLowerCase(), USUAL_PORT[scheme])) {
        urls.add(`${scheme}://${name}:${port}${path}`)
      }
    }
  }
  return [...urls]
}

/** Public ports on which the edge has this name. */
function portsOf({ hosts, entry }: Flow, name: string, usual: number): readonly number[] {
  const held = hosts.filter(({ host }) => (host.startsWith('*.') ? name.endsWith(host.slice(1)) : name === host))
  return held.length === 0 ? [entry.publicPort ?? usual] : [usual, ...held.map(({ port }) => port)]
}

const PORT = /:\d*$/
const ABSOLUTE = /^https?:\/\/[^/?#]*/i

/** Path and query of the request line as they came. */
export function rawTarget({ head }: FlowRequest): string {
  const { target } = head
  if (target.startsWith('/')) return target
  const rest = target.replace(ABSOLUTE, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}
