import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { formatAuthority } from '../../lib/host.js'

/** State of a socket that listens, in the tables of the kernel (proc(5), /proc/net/tcp). */
const LISTENS = '0A'
/** Folder of this process in proc(5). */
const OWN = '/proc/self'

/** A listening socket of a process: its descriptor and where it listens. */
export interface ListeningSocket {
  readonly fd: number
  readonly host: string
  readonly port: number
}

/** Returns the listening TCP sockets of this process; undefined if the system does not list them (not Linux). */
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

/** In the flags of a unix socket in /proc/net/unix: it listens (`__SO_ACCEPTCON`). */
const ACCEPTS = 0x10000
/** Bound name of a socket with a long path; see `takeOverPlace`. */
const BY_DESCRIPTOR = /^\/proc\/self\/fd\/(\d+)\/take-over\.sock$/

/** Returns the process that listens for take-overs of a data folder; undefined if none is found. */
export function listenerAt(folder: string): number | undefined {
  const real = realpathSync(folder)
  const named = new Set([folder, real].map((one) => join(one, 'take-over.sock')))
  for (const line of tableLines('/proc/net/unix')) {
    const [, , , flags = '0', , , inode = '', path = ''] = line.trim().split(/\s+/)
    const fd = BY_DESCRIPTOR.exec(path)?.[1]
    if ((Number.parseInt(flags, 16) & ACCEPTS) === 0 || (fd === undefined && !named.has(path))) continue
    for (const pid of readdirSync('/proc')) {
      if (!/^\d+$/.test(pid) || !holds(pid, `socket:[${inode}]`)) continue
      if (fd === undefined || linkOf(fd, `/proc/${pid}`) === real) return Number(pid)
    }
  }
  return undefined
}

/** Is the process running? A zombie holds no resources. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}

function holds(pid: string, link: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => linkOf(fd, `/proc/${pid}`) === link)
  } catch {
    // It has ended, or is of another user.
    return false
  }
}

/** Without IPv6 its table does not exist. */
function tableLines(path: string): readonly string[] {
  try {
    return readFileSync(path, 'latin1').split('\n').slice(1)
  } catch (error) {
    if (path.endsWith('6')) return []
    throw error
  }
}

/** A descriptor may be closed during the listing, as the one of the listing itself. */
function linkOf(fd: string, process = OWN): string {
  try {
    return readlinkSync(`${process}/fd/${fd}`)
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
