import type { HeaderList } from '../flow/headers.js'
import { type CidrSet, canonicalAddress, parseAddress } from '../lib/ip.js'
import { ownText } from '../lib/peer-names.js'
import { type ForwardedElement, formatElement, parseForwarded } from './forwarded-field.js'

type Scheme = 'http' | 'https'

/** Origin of a request, as far as trusted peers report it. */
interface Origin {
  /** Right-most element of the chain that is not a trusted proxy, in canonical text. */
  readonly address: string
  readonly port: number
  readonly trusted: boolean
  /** Scheme of the client's request. */
  readonly scheme: Scheme
  /** Fields from trusted peers; undefined if there are none. */
  readonly said: Said | undefined
}

/** Fields from trusted peers in one form for `X-Forwarded-*` and `Forwarded`. */
interface Said {
  /** Elements of X-Forwarded-For. */
  readonly chain: readonly string[]
  /** The same chain as elements of Forwarded. */
  readonly elements: readonly ForwardedElement[]
  /** Index of the client's element; the number of elements if this hop's element describes the client. */
  readonly client: number
  /** Host requested by the client. */
  readonly host: string | undefined
  /** Port requested by the client, in digits. */
  readonly port: string | undefined
}

/**
 * Reads and writes the origin fields: X-Forwarded-For, -Proto, -Host, -Port and Forwarded (RFC 7239). Fields from untrusted peers have been
 * removed before (see `header-sanitizing`).
 */
export interface ClientAddress {
  isTrusted(peer: string): boolean
  /** Returns the origin of a request from `peer`, using the chain in `headers` if the peer is trusted. `scheme`: of the connection. */
  origin(peer: string, port: number, headers: HeaderList, scheme: Scheme): Origin
  /**
   * Writes this hop's fields to the end of `headers`, replacing those of a trusted peer, whose X-Forwarded-* and Forwarded values appear in
   * both.
   */
  write(headers: string[], peer: string, origin: Origin, scheme: Scheme, authority: string): void
}

/** Trusts the peers in `networks`; undefined trusts none. */
export function trustingProxies(networks: CidrSet | undefined): ClientAddress {
  return new TrustingProxies(networks)
}

/** Used behind another Sluice proxy that has reported the client: the peer is the client, and that proxy's fields are kept. */
export const asWritten: ClientAddress = {
  isTrusted: () => true,
  origin: (address, port, headers, scheme) => {
    const written = schemeOf(elementsOf(headers, PROTO)[0])
    return { address, port, trusted: true, scheme: written ?? scheme, said: undefined }
  },
  write() {
    // The other proxy has written the fields.
  }
}

const FOR = 'x-forwarded-for'
const PROTO = 'x-forwarded-proto'
const HOST = 'x-forwarded-host'
const PORT = 'x-forwarded-port'
const FORWARDED = 'forwarded'
const WRITTEN: ReadonlySet<string> = new Set([FOR, PROTO, HOST, PORT, FORWARDED])

class TrustingProxies implements ClientAddress {
  readonly #trusted: CidrSet | undefined

  constructor(trusted: CidrSet | undefined) {
    this.#trusted = trusted
  }

  isTrusted(peer: string): boolean {
    return this.#trusted !== undefined && this.#trusted.match(peer) !== undefined
  }

  origin(peer: string, port: number, headers: HeaderList, scheme: Scheme): Origin {
    if (!this.isTrusted(peer)) return { address: peer, port, trusted: false, scheme, said: undefined }
    if (!hasWritten(headers)) return { address: peer, port, trusted: true, scheme, said: undefined }
    const chain = elementsOf(headers, FOR)
    const forwarded = allValues(headers, FORWARDED).flatMap(parseForwarded)
    const nodes = forwarded.map(({ node }) => (node === undefined ? undefined : readNode(node)))
    const addresses = chain.length > 0 ? chain.map(readNode) : nodes
    const at = this.#clientAt(addresses)
    const address = addresses[at] ?? peer
    const client = this.#reportedAt(addresses, at)
    const reported = forwarded[this.#reportedAt(nodes, this.#clientAt(nodes))]
    const about = reported === undefined ? undefined : readNode(reported.node ?? '')
    // An element of a proxy closer to us describes that proxy's own hop.
    const element = about === undefined || about === address ? reported : undefined
    const said = schemeOf(ofClient(elementsOf(headers, PROTO), chain, client))
    return {
      address,
      port: address === peer ? port : 0,
      trusted: true,
      scheme: agreed(said, schemeOf(element?.proto)) ?? scheme,
      said: {
        chain: chain.length > 0 ? chain : nodes.map((node) => node ?? 'unknown'),
        elements: chain.length === 0 || isSame(nodes, addresses) ? forwarded : addresses.map(elementAt),
        client,
        host: ofClient(elementsOf(headers, HOST), chain, client) ?? element?.host,
        port: readPort(ofClient(elementsOf(headers, PORT), chain, client))
      }
    }
  }

  /**
   * Returns the index of the client: the right-most untrusted address; the length if that is the peer itself. An invalid address ends the
   * chain.
   */
  #clientAt(addresses: readonly (string | undefined)[]): number {
    let at = addresses.length
    for (let i = at - 1; i >= 0; i--) {
      const address = addresses[i]
      if (address === undefined) break
      at = i
      if (!this.isTrusted(address)) break
    }
    return at
  }

  /** Returns the index of the element that a trusted peer wrote about its client, even if the address is hidden. */
  #reportedAt(addresses: readonly (string | undefined)[], at: number): number {
    const known = addresses[at]
    return at > 0 && (known === undefined || this.isTrusted(known)) ? at - 1 : at
  }

  write(headers: string[], peer: string, { said, scheme: used }: Origin, scheme: Scheme, authority: string): void {
    if (said === undefined) {
      headers.push('X-Forwarded-For', peer, 'X-Forwarded-Proto', scheme, 'X-Forwarded-Host', authority)
      headers.push(...ownFields(peer, scheme, authority))
      return
    }
    dropWritten(headers)
    const { chain, elements, client, host = authority, port = portOf(host, used) } = said
    const own = { node: nodeOf(peer), host: authority, proto: scheme, others: [] }
    const forwarded = [...elements, own].map((one, i) =>
      formatElement(i === client ? { ...one, host, proto: used } : one)
    )
    headers.push('X-Forwarded-For', [...chain, peer].join(', '), 'X-Forwarded-Proto', used, 'X-Forwarded-Host', host)
    headers.push('X-Forwarded-Port', port, 'Forwarded', forwarded.join(', '))
  }
}

/** Returns the port of an authority in digits, or the default port of its scheme. */
function portOf(authority: string, scheme: Scheme): string {
  const colon = authority.lastIndexOf(':')
  const port = colon === -1 ? undefined : readPort(authority.slice(colon + 1))
  return port ?? (scheme === 'https' ? '443' : '80')
}

function readPort(text: string | undefined): string | undefined {
  return text !== undefined && /^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535 ? text : undefined
}

/** Returns the scheme that trusted peers report; the insecure one if they contradict each other. */
function agreed(one: Scheme | undefined, other: Scheme | undefined): Scheme | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return one === other ? one : 'http'
}

/** Returns the value for the client: proxies write one value, or one for each element of the chain. */
function ofClient(values: readonly string[], chain: readonly string[], client: number): string | undefined {
  return (values.length === chain.length ? values[client] : undefined) ?? values[0]
}

/** Parses a scheme, including those of WebSockets; undefined if unknown. */
function schemeOf(text: string | undefined): Scheme | undefined {
  switch (text?.toLowerCase()) {
    case 'https':
    case 'wss':
      return 'https'
    case 'http':
    case 'ws':
      return 'http'
    default:
      return undefined
  }
}

function isSame(some: readonly (string | undefined)[], others: readonly (string | undefined)[]): boolean {
  return some.length === others.length && some.every((one, i) => one === others[i])
}

function elementAt(address: string | undefined): ForwardedElement {
  return { node: address === undefined ? 'unknown' : nodeOf(address), host: undefined, proto: undefined, others: [] }
}

function hasWritten(headers: HeaderList): boolean {
  for (let i = 0; i < headers.length; i += 2) if (WRITTEN.has((headers[i] as string).toLowerCase())) return true
  return false
}

function dropWritten(headers: string[]): void {
  let kept = 0
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    if (WRITTEN.has(name.toLowerCase())) continue
    headers[kept++] = name
    headers[kept++] = value
  }
  headers.length = kept
}

function allValues(headers: HeaderList, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() === name) values.push(headers[i + 1] as string)
  }
  return values
}

/** Returns the comma-separated elements of all fields of this name. */
function elementsOf(headers: HeaderList, name: string): string[] {
  return allValues(headers, name)
    .flatMap((value) => value.split(','))
    .map((element) => element.trim())
    .filter((element) => element !== '')
}

/** Parses an address of a chain to canonical text, ignoring quotes, brackets and port; undefined if invalid. */
function readNode(text: string): string | undefined {
  let address = text
  if (address.startsWith('"') && address.endsWith('"')) address = address.slice(1, -1)
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(address)
  if (bracketed !== null) address = bracketed[1] as string
  else if (/^[\d.]+:\d+$/.test(address)) address = address.slice(0, address.lastIndexOf(':'))
  const canonical = canonicalAddress(address)
  return parseAddress(canonical) === undefined ? undefined : canonical
}

/** Cache of the last written fields, which are the same for all requests of a connection. */
let last = { peer: '', scheme: '', authority: '', fields: [] as HeaderList }

/** Returns X-Forwarded-Port and Forwarded of this hop. */
function ownFields(peer: string, scheme: Scheme, authority: string): HeaderList {
  if (authority !== last.authority || peer !== last.peer || scheme !== last.scheme || last.fields.length === 0) {
    const element = ownText(formatElement({ node: nodeOf(peer), host: authority, proto: scheme, others: [] }))
    last = { peer, scheme, authority, fields: ['X-Forwarded-Port', portOf(authority, scheme), 'Forwarded', element] }
  }
  return last.fields
}

function nodeOf(address: string): string {
  return address.includes(':') ? `[${address}]` : address
}
