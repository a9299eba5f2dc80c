import { domainToUnicode } from 'node:url'
import { type FileListener, listenerUnit } from '../../../control/file-units.js'
import { isInternal } from '../../../flow/flow.js'
import { formatAuthority, parseAuthority } from '../../../lib/host.js'
import { dataOf, type MapEntry } from '../../../policy/tree.js'
import { PASSTHROUGH, tcpEdge } from '../../../resources/edges.js'
import { splitHostport } from '../../../resources/units.js'
import type { HostPort, ListenerUnit, Unit } from '../../../runtime/plan.js'
import { fieldErrors } from '../../../schema/errors.js'
import type { Declaration } from './declaration.js'
import type { CertificateHost } from './declared-part.js'
import { siteErrors } from './site-codes.js'
import { type FileLine, lineWords } from './site-text.js'

const HTTPS_PORT = 443

/** A listener with its line in the file. */
export interface DeclaredListener extends FileLine {
  readonly unit: ListenerUnit
}

/** Does a listener of the process or of the file take the lenient form of paths? */
export function takesLenientPaths({ input }: Declaration, listeners: MapEntry | undefined): boolean {
  if (input.process?.lenientPaths === true) return true
  const items = listeners?.value.kind === 'list' ? listeners.value.items : []
  return items.some((item) => {
    const read = input.readListener(dataOf(item))
    return read.ok && ((read.value as FileListener).path_form ?? 'strict') !== 'strict'
  })
}

/** Listeners with the places of their addresses, which no other listener and no TCP edge may have. */
export function readListeners(declaration: Declaration, { key, value }: MapEntry): DeclaredListener[] {
  const units = new Map<string, Unit>()
  const found: DeclaredListener[] = []
  const taken = [...declaration.input.opened].map(([address, by]) => ({ at: splitHostport(address), by }))
  for (const declared of declaration.records) {
    const { resource, record, label } = declared
    if (resource !== tcpEdge || record.body.tls === PASSTHROUGH) continue
    for (const address of record.body.hostports as readonly string[])
      taken.push({ at: splitHostport(address), by: `${label} ${lineWords(declared)}` })
  }
  for (const [index, item] of declaration.items(value, [key], key).entries()) {
    const at = { path: [key, index], span: item.span }
    // A variable that is missing has been reported.
    if (item.kind === 'map' ? item.entries.some(({ value }) => value.kind === 'broken') : item.kind === 'broken')
      continue
    const read = declaration.input.readListener(dataOf(item))
    if (!read.ok) {
      declaration.error(at, fieldErrors.FIELD_INVALID, `listeners must be ${read.refused}`)
      continue
    }
    const listener = read.value as FileListener
    const { host, port } = listener.listen
    const address = formatAuthority(host, port)
    const other = taken.find((one) => clashes(one.at, listener.listen))
    if (other !== undefined) declaration.error(at, siteErrors.PORT_CLASH, `${address} is opened by ${other.by} already`)
    taken.push({ at: { host, port }, by: `the listener ${lineWords(declaration.lineAt(item.span))}` })
    const unit = listenerUnit(listener, listener.path_form ?? 'strict', units)
    units.set(`listener:${unit.name}`, unit)
    found.push({ unit, ...declaration.lineAt(item.span) })
  }
  return found
}

/** Number of listeners that the file asks for, those that are wrong included. */
export const lengthOf = (entry: MapEntry | undefined) => (entry?.value.kind === 'list' ? entry.value.items.length : 0)

/**
 * Reports hosts whose port has no listener and that no request can reach. If the options are unknown, only the listeners of
 * the file are checked, if there are any. Internal hosts are reached through policies, which name the port.
 */
export function reportUnserved(
  declaration: Declaration,
  hosts: readonly CertificateHost[],
  listeners: readonly DeclaredListener[]
): void {
  const own = listeners.map(({ unit }) => unit.publicPort ?? unit.port)
  const { process, usual } = declaration.input
  const ports = new Set([...own, ...(process?.ports ?? [])])
  if (own.length === 0 && usual !== undefined) ports.add(usual.port)
  if (ports.size === 0) return
  for (const { host, port, at } of hosts) {
    if (port === HTTPS_PORT || ports.has(port) || isInternal(host)) continue
    const message = `no listener has port ${port}; open one, such as https://0.0.0.0:${port}, or write "${domainToUnicode(host)}" without a port, which each listener without public_port serves`
    declaration.error(at, siteErrors.PORT_UNSERVED, message)
  }
}

/** Warns about servers that are listeners of the file or the options, which would cause a loop. */
export function warnOfLoops(declaration: Declaration, listeners: readonly DeclaredListener[]): void {
  const { usual } = declaration.input
  const own = [
    ...(listeners.length > 0 || usual === undefined ? [] : [{ at: usual, by: 'the option listen' }]),
    ...listeners.map(({ unit: { host, port }, ...line }) => ({
      at: { host, port },
      by: `the listener ${lineWords(line)}`
    })),
    ...[...declaration.input.opened].map(([address, by]) => ({ at: splitHostport(address), by }))
  ]
  for (const { address, loop } of declaration.servers) {
    // A service of the DNS has no port; an address that is none has been reported.
    const { host, port } = parseAuthority(address) ?? {}
    if (host === undefined || port === undefined) continue
    const one = own.find((listener) => leadsTo({ host, port }, listener.at))
    if (one !== undefined) declaration.report({ ...loop, message: `${address} is ${one.by}: requests come back` })
  }
}

const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/

/** Is a connection to `server` one to `listener`? Other addresses of this machine are not known here. */
function leadsTo(server: HostPort, listener: HostPort): boolean {
  if (server.port !== listener.port) return false
  if (server.host === listener.host || EVERY_ADDRESS.has(server.host)) return true
  return LOOPBACK.test(server.host) && (LOOPBACK.test(listener.host) || EVERY_ADDRESS.has(listener.host))
}

/** Addresses that take every address of the machine. */
const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/** Can only one of them be opened? Port 0 is any that is free. */
function clashes(one: HostPort, other: HostPort): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  return one.host === other.host || EVERY_ADDRESS.has(one.host) || EVERY_ADDRESS.has(other.host)
}

/** Does a listener with TLS serve a site of this port? */
export function isServed(port: number, secure: readonly ListenerUnit[]): boolean {
  return secure.some(
    (one) => (one.publicPort ?? one.port) === port || (one.publicPort === undefined && port === HTTPS_PORT)
  )
}
