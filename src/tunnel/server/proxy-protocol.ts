import { formatAddress, parseAddress } from '../../lib/ip.js'

/** One end of a visitor's connection. */
export interface Peer {
  readonly address: string
  readonly port: number
}

const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')

/** The header of the PROXY protocol (version 1 or 2, HAProxy's specification) for a TCP connection from `from` to `to`. */
export function proxyHeader(version: 1 | 2, from: Peer, to: Peer): Buffer {
  const source = parseAddress(from.address)
  const target = parseAddress(to.address)
  if (source === undefined || target === undefined || source.length !== target.length) {
    return version === 1 ? Buffer.from('PROXY UNKNOWN\r\n') : Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])])
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
  return Buffer.concat([SIGNATURE, Buffer.from([0x21, four ? 0x11 : 0x21, 0, body.length]), body])
}
