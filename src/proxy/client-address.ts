import { isIP } from 'node:net'
import type { HeaderList } from '../flow/headers.js'
import { type CidrSet, unmapIpv4 } from '../lib/ip.js'

/** Where a request came from, as far as the peers that we trust can say. */
interface Origin {
  /** Right-most element of the chain that is no trusted proxy; IPv4-mapped addresses as IPv4. */
  readonly address: string
  readonly port: number
  readonly trusted: boolean
}

/**
 * Reads and writes the fields that say where a request came from: X-Forwarded-For, -Proto, -Host and Forwarded
 * (RFC 7239). What came from an untrusted peer is gone before this (see `header-sanitizing`).
 */
export interface ClientAddress {
  isTrusted(peer: string): boolean
  /** The client of a request whose peer is `peer`, by the chain in `headers` when the peer is trusted. */
  origin(peer: string, port: number, headers: HeaderList): Origin
  /** Puts this hop's fields at the end of `headers`, in place of those that came from a trusted peer. */
  write(headers: string[], peer: string, trusted: boolean, scheme: string, authority: string): void
}

/** Believes the peers in `networks`; no peer when it is undefined. */
export function trustingProxies(networks: CidrSet | undefined): ClientAddress {
  return new TrustingProxies(networks)
}

/**
 * Behind another Sluice proxy that has reported the client: the peer is the client, and the fields stay as that proxy
 * wrote them.
 */
export const asWritten: ClientAddress = {
  isTrusted: () => true,
  origin: (address, port) => ({ address, port, trusted: true }),
  write() {
    // That proxy has written the fields.
  }
}

class TrustingProxies implements ClientAddress {
  readonly #trusted: CidrSet | undefined

  constructor(trusted: CidrSet | undefined) {
    this.#trusted = trusted
  }

  isTrusted(peer: string): boolean {
    return this.#trusted !== undefined && this.#trusted.match(peer) !== undefined
  }

  origin(peer: string, port: number, headers: HeaderList): Origin {
    if (!this.isTrusted(peer)) return { address: peer, port, trusted: false }
    const chain = this.#chain(headers)
    let address = peer
    for (let i = chain.length - 1; i >= 0; i--) {
      const element = readElement(chain[i] as string)
      if (element === undefined) break
      address = element
      if (!this.isTrusted(element)) break
    }
    return { address, port: address === peer ? port : 0, trusted: true }
  }

  /** Elements of X-Forwarded-For; of Forwarded when the other is absent. */
  #chain(headers: HeaderList): string[] {
    const chain = allValues(headers, 'x-forwarded-for').flatMap((value) => value.split(','))
    if (chain.length > 0) return chain
    return allValues(headers, 'forwarded')
      .flatMap((value) => value.split(','))
      .map((element) => /(?:^|;)\s*for\s*=\s*("[^"]*"|[^;\s]*)/i.exec(element)?.[1] ?? '')
  }

  write(headers: string[], peer: string, trusted: boolean, scheme: string, authority: string): void {
    if (!trusted) {
      headers.push('X-Forwarded-For', peer, 'X-Forwarded-Proto', scheme, 'X-Forwarded-Host', authority)
      headers.push('Forwarded', element(peer, scheme, authority))
      return
    }
    const before = (name: string) => take(headers, name)
    const addresses = [...before('x-forwarded-for'), peer].join(', ')
    const proto = before('x-forwarded-proto')[0] ?? scheme
    const host = before('x-forwarded-host')[0] ?? authority
    const forwarded = [...before('forwarded'), element(peer, scheme, authority)].join(', ')
    headers.push('X-Forwarded-For', addresses, 'X-Forwarded-Proto', proto, 'X-Forwarded-Host', host)
    headers.push('Forwarded', forwarded)
  }
}

function allValues(headers: HeaderList, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === name) values.push(headers[i + 1] as string)
  }
  return values
}

function take(headers: string[], name: string): string[] {
  const values: string[] = []
  let kept = 0
  for (let i = 0; i < headers.length; i += 2) {
    const [written, value] = [headers[i] as string, headers[i + 1] as string]
    if (written.toLowerCase() === name) values.push(value)
    else {
      headers[kept++] = written
      headers[kept++] = value
    }
  }
  headers.length = kept
  return values
}

/** An address of a chain: quotes, brackets and a port are left aside; undefined when it is no address. */
function readElement(text: string): string | undefined {
  let address = text.trim()
  if (address.startsWith('"') && address.endsWith('"')) address = address.slice(1, -1)
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(address)
  if (bracketed !== null) address = bracketed[1] as string
  else if (/^[\d.]+:\d+$/.test(address)) address = address.slice(0, address.lastIndexOf(':'))
  address = unmapIpv4(address.toLowerCase())
  return isIP(address) === 0 ? undefined : address
}

/** What was written last: the requests of one connection have the same. */
let last = { peer: '', scheme: '', authority: '', text: '' }

/** One element of Forwarded; an IPv6 address and anything with a colon is quoted (RFC 7239 4 and 6). */
function element(peer: string, scheme: string, authority: string): string {
  if (authority !== last.authority || peer !== last.peer || scheme !== last.scheme || last.text === '')
    last = { peer, scheme, authority, text: elementOf(peer, scheme, authority) }
  return last.text
}

function elementOf(peer: string, scheme: string, authority: string): string {
  const node = peer.includes(':') ? `"[${peer}]"` : peer
  const host =
    authority.includes(':') || authority.includes(',') || authority.includes(';') ? `"${authority}"` : authority
  return `for=${node};host=${host};proto=${scheme}`
}
