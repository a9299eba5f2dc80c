import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { formatAuthority } from '../../lib/host.js'

/** State of a socket that listens, in the tables of the kernel (proc(5), /proc/net/tcp). */
const LISTENS = '0A'
const OWN = '/proc/self'

/** A listening socket of a process: its descriptor and where it listens. */
export interface ListeningSocket {
  readonly fd: number
  readonly host: string
  readonly port: number
}

/** The TCP sockets on which this process listens; undefined: the system does not tell (it is not Linux). */
export function listeningSockets(): readonly ListeningSocket[] | undefined {
  const places = new Map<string, Omit<ListeningSocket, 'fd'>>()
  try {
    for (const table of ['tcp', 'tcp6']) {
      for (const line of tableLines(`${OWN}/net/${table}`)) {
        const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/)
        if (state === LISTENS && inode !== undefined) places.set(`socket:[${inode}]`, placeOf(local))
      }
    }
    return readdirSync(`${OWN}/fd`).flatMap((fd) => {
      const place = places.get(linkOf(fd))
      return place === undefined ? [] : [{ fd: Number(fd), ...place }]
    })
  } catch {
    return undefined
  }
}

/** Without IPv6 there is no table of it. */
function tableLines(path: string): readonly string[] {
  try {
    return readFileSync(path, 'latin1').split('\n').slice(1)
  } catch (error) {
    if (path.endsWith('6')) return []
    throw error
  }
}

/** A descriptor may be closed while they are listed, as the one of the list itself. */
function linkOf(fd: string): string {
  try {
    return readlinkSync(`${OWN}/fd/${fd}`)
  } catch {
    return ''
  }
}

/** `0100007F:1F90` is 127.0.0.1:8080: words of the address as the machine keeps them, the port as a number. */
function placeOf(local: string): { readonly host: string; readonly port: number } {
  const [address = '', port = ''] = local.split(':')
  const bytes = Buffer.from(address, 'hex')
  for (let word = 0; word + 4 <= bytes.length; word += 4) bytes.subarray(word, word + 4).reverse()
  return { host: bytes.length === 4 ? bytes.join('.') : textOfIpv6(bytes), port: Number.parseInt(port, 16) }
}

function textOfIpv6(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16))
  // The parser of URLs writes the shortest form.
  return new URL(`http://${formatAuthority(groups.join(':'), 80)}`).hostname.slice(1, -1)
}
