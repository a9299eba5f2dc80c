import { isIPv4, isIPv6, type Socket } from 'node:net'
import { formatAddress, parseAddress } from '../lib/ip.js'
import type { HandshakeFailure } from './contract.js'
import { ignore, readAhead } from './pipes.js'

/** One end of a connection. */
interface End {
  readonly address: string
  readonly port: number
}

/** Content of a header: another client and the address that it reached, or no replacement of the socket's own endpoints. */
type ProxyHeader = { readonly kind: 'own' } | { readonly kind: 'proxied'; readonly peer: End; readonly local: End }

/** Result of reading the first bytes of a connection. `length`: end of the header. */
type HeaderRead = 'more' | 'none' | 'malformed' | { readonly header: ProxyHeader; readonly length: number }

const V1 = Buffer.from('PROXY ')
/** Maximum length of a version 1 header with its CR LF (bytes; 2.1 of the specification). */
const V1_MAX = 107
/** Signature of a version 2 header. */
const V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
/** Length of the fixed part of a version 2 header (bytes). */
const V2_FIXED = 16
/** Maximum length of a version 2 header (bytes), with room for long TLVs such as a client's certificate. */
const V2_MAX = 8192
/** A port in decimal digits. */
const PORT = /^(?:0|[1-9]\d{0,4})$/
const OWN: ProxyHeader = { kind: 'own' }

/**
 * Reads the header of the PROXY protocol, version 1 or 2, at the beginning of `bytes` (haproxy.org, proxy-protocol.txt, 2.1 and
 * 2.2). `none`: the bytes begin otherwise. LOCAL, UNKNOWN and unix sockets say nothing about addresses; TLVs are passed over.
 */
export function readHeader(bytes: Buffer): HeaderRead {
  if (begins(bytes, V1)) return bytes.length < V1.length ? 'more' : readText(bytes)
  if (begins(bytes, V2)) return bytes.length < V2_FIXED ? 'more' : readBinary(bytes)
  return 'none'
}

/** Compares the common length of both. */
function begins(bytes: Buffer, signature: Buffer): boolean {
  const length = Math.min(bytes.length, signature.length)
  return bytes.compare(signature, 0, length, 0, length) === 0
}

function readText(bytes: Buffer): HeaderRead {
  const end = bytes.subarray(0, V1_MAX).indexOf('\r\n')
  if (end === -1) return bytes.length < V1_MAX && !bytes.includes('\n') ? 'more' : 'malformed'
  const [, family, peer = '', local = '', peerPort = '', localPort = '', ...more] = bytes
    .toString('latin1', 0, end)
    .split(' ')
  const length = end + 2
  if (family === 'UNKNOWN') return { header: OWN, length }
  const isAddress = family === 'TCP4' ? isIPv4 : family === 'TCP6' ? isIPv6 : undefined
  if (isAddress === undefined || more.length > 0) return 'malformed'
  // A zone is local to a machine and cannot come over a network.
  if (!isAddress(peer) || !isAddress(local) || peer.includes('%') || local.includes('%')) return 'malformed'
  if (!isPort(peerPort) || !isPort(localPort)) return 'malformed'
  const header: ProxyHeader = {
    kind: 'proxied',
    peer: { address: peer.toLowerCase(), port: Number(peerPort) },
    local: { address: local.toLowerCase(), port: Number(localPort) }
  }
  return { header, length }
}

function isPort(text: string): boolean {
  return PORT.test(text) && Number(text) <= 65_535
}

function readBinary(bytes: Buffer): HeaderRead {
  const command = bytes[12] as number
  const length = V2_FIXED + bytes.readUInt16BE(14)
  if ((command !== 0x20 && command !== 0x21) || length > V2_MAX) return 'malformed'
  if (bytes.length < length) return 'more'
  const header = command === 0x20 ? OWN : readAddresses(bytes[13] as number, bytes.subarray(V2_FIXED, length))
  return header === undefined ? 'malformed' : { header, length }
}

/** Returns undefined for a family that cannot use TCP, or for too few bytes. */
function readAddresses(family: number, block: Buffer): ProxyHeader | undefined {
  switch (family) {
    case 0x00:
    case 0x31:
      return OWN
    case 0x11:
      return block.length < 12 ? undefined : proxied(block, 4, ipv4)
    case 0x21:
      return block.length < 36 ? undefined : proxied(block, 16, ipv6)
    default:
      return undefined
  }
}

function proxied(block: Buffer, size: number, text: (address: Buffer) => string): ProxyHeader {
  return {
    kind: 'proxied',
    peer: { address: text(block.subarray(0, size)), port: block.readUInt16BE(2 * size) },
    local: { address: text(block.subarray(size, 2 * size)), port: block.readUInt16BE(2 * size + 2) }
  }
}

function ipv4(address: Buffer): string {
  return address.join('.')
}

/** Formats an address in the form of RFC 5952, so that all headers of one client look alike. */
function ipv6(address: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => address.readUInt16BE(2 * i).toString(16))
  if (groups.slice(0, 5).every((group) => group === '0') && groups[5] === 'ffff') {
    return `::ffff:${ipv4(address.subarray(12))}`
  }
  return shortened(groups)
}

/** Replaces the longest run of zero groups, the first of equal ones, by `::`; a single zero is kept. */
function shortened(groups: readonly string[]): string {
  let begin = 0
  let longest = 1
  for (let i = 0; i < groups.length; i++) {
    let run = 0
    while (groups[i + run] === '0') run++
    if (run > longest) {
      begin = i
      longest = run
    }
  }
  if (longest === 1) return groups.join(':')
  return `${groups.slice(0, begin).join(':')}::${groups.slice(begin + longest).join(':')}`
}

/** Returns the header of the PROXY protocol (version 1 or 2, HAProxy's specification) for a TCP connection from `from` to `to`. */
export function proxyHeader(version: 1 | 2, from: End, to: End): Buffer {
  const source = parseAddress(from.address)
  const target = parseAddress(to.address)
  if (source === undefined || target === undefined || source.length !== target.length) {
    return version === 1 ? Buffer.from('PROXY UNKNOWN\r\n') : Buffer.concat([V2, Buffer.from([0x20, 0, 0, 0])])
  }
  const four = source.length === 1
  if (version === 1) {
    const addresses = `${formatAddress(source)} ${formatAddress(target)} ${from.port} ${to.port}`
    return Buffer.from(`PROXY TCP${four ? 4 : 6} ${addresses}\r\n`)
  }
  const body = Buffer.alloc(8 * source.length + 4)
  for (const [index, word] of [...source, ...target].entries()) body.writeUInt32BE(word, index * 4)
  body.writeUInt16BE(from.port, body.length - 4)
  body.writeUInt16BE(to.port, body.length - 2)
  return Buffer.concat([V2, Buffer.from([0x21, four ? 0x11 : 0x21, 0, body.length]), body])
}

interface ReadHeaderOptions {
  /** True: the header is required. False: a connection with one is rejected. */
  readonly trusted: boolean
}

/**
 * Reads the PROXY header of an accepted, paused socket; what came behind it is put back (`unshift`) and the socket stays
 * paused. `own` also for a peer that is not trusted and sends no header; it must send something, because what is not known
 * cannot be distinguished from a header. `done` is called once; after a failure the socket is destroyed. Returns the way to give up,
 * which does nothing when it is over.
 */
export function readProxyHeader(
  socket: Socket,
  options: ReadHeaderOptions,
  done: (result: ProxyHeader | { readonly kind: 'failed'; readonly why: HandshakeFailure }) => void
): (why: HandshakeFailure) => void {
  let over = false
  let first: Buffer | undefined
  const settle = (): void => {
    over = true
    stop()
    socket.removeListener('close', onClose)
  }
  const fail = (why: HandshakeFailure): void => {
    if (over) return
    settle()
    socket.destroy()
    done({ kind: 'failed', why })
  }
  const succeed = (header: ProxyHeader, rest: Buffer): void => {
    settle()
    if (rest.length > 0) socket.unshift(rest)
    done(header)
  }
  const take = (chunk: Buffer): 'more' | 'enough' => {
    first = first === undefined ? chunk : Buffer.concat([first, chunk])
    const read = readHeader(first)
    if (read === 'more') return 'more'
    if (read === 'none') {
      if (options.trusted) fail('proxy-header-missing')
      else succeed({ kind: 'own' }, first)
    } else if (!options.trusted) fail('proxy-header-refused')
    else if (read === 'malformed') fail('proxy-header-malformed')
    else succeed(read.header, first.subarray(read.length))
    return 'enough'
  }
  const onClose = (): void => fail('client-gone')
  const stop = readAhead(socket, take, onClose)
  socket.on('error', ignore)
  socket.once('close', onClose)
  if (socket.destroyed) process.nextTick(onClose)
  return fail
}
