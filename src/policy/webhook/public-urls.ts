import type { Flow, FlowRequest } from '../../exchange/flow.js'

/**
 * The URLs under which a sender may know the place that a request came to, for schemes that sign the URL.
 *
 * Path and query are those of the request line, untouched. The host is the one that routing has found the edge by, or the one
 * that a trusted proxy says; the scheme is https, because senders reach an edge through TLS wherever it ends, or
 * the one that this hop or a trusted proxy saw. Senders and proxies disagree about default ports, so each host stands
 * without a port, with its own, and with the public one.
 */
export function publicUrls(flow: Flow, request: FlowRequest): readonly string[] {
  const { headers, target } = request
  const path = rawTarget(request)
  const proto = headers.get('x-forwarded-proto')?.toLowerCase()
  const schemes = proto === 'http' ? ['https', 'http'] : ['https']
  const authorities = new Set([target.authority, headers.get('x-forwarded-host') ?? target.authority])
  const urls = new Set<string>()
  for (const scheme of schemes) {
    for (const authority of authorities) {
      const host = authority.replace(PORT, '')
      urls.add(`${scheme}://${authority}${path}`)
      urls.add(`${scheme}://${host}${path}`)
      urls.add(`${scheme}://${host}:${flow.entry.publicPort ?? (scheme === 'https' ? 443 : 80)}${path}`)
    }
  }
  return [...urls]
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
