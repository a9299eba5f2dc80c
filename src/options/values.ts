import Type from 'typebox'
import { parseAuthority } from '../lib/host.js'
import { didYouMean } from '../lib/suggest.js'
import type { Dialect } from '../schema/publish.js'
import type { Schema } from '../schema/schema.js'
import { parses } from '../schema/values.js'

/**
 * Kinds of values that only options have, beside those of `schema/values.ts`. `Parsed` of a kind is the form that the program uses; the
 * schema describes the written form. `read.ts` has one reader for each kind.
 */
type OwnKind =
  | 'address'
  | 'address-or-off'
  | 'listeners'
  | 'upstream'
  | 'origin'
  | 'url'
  | 'pairs'
  | 'file'
  | 'directories'
  | 'directory'
  | 'store'
  | 'host'
  | 'hosts'
  | 'name-servers'
  | 'networks'
  | 'origins'
  | 'names'
  | 'rate'
  | 'ports'
  | 'switch'
  | 'workers'
  | 'interval'

export type OptionKind = OwnKind | 'size' | 'duration' | 'integer' | 'fraction' | 'choice' | 'text'

/** Description and default of an option; `default` is in the written form. */
interface OptionText {
  readonly description: string
  readonly default?: unknown
}

/** Schema of an option. */
export type OptionSchema = Schema & OptionText

/** Returns the kind that selects the option's reader. */
export function kindOf(schema: Schema): OptionKind {
  const { 'x-kind': kind, enum: words, type } = schema
  if (kind !== undefined) return kind as OptionKind
  if (words !== undefined) return 'choice'
  return type === 'integer' ? 'integer' : type === 'number' ? 'fraction' : 'text'
}

/** The published schema includes the kind of each option and its bounds (milliseconds or bytes). */
export const OPTIONS: Dialect = {
  keeps: (keyword) => !keyword.startsWith('x-'),
  member(published, declared) {
    if (declared.properties !== undefined) return published
    const { 'x-min': minimum, 'x-max': maximum } = declared
    return { ...published, ...(minimum === undefined ? {} : { minimum, maximum }), 'x-kind': kindOf(declared) }
  }
}

/** Address to listen on. Port 0 selects a free port. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
  /** True for the default that the user has not set. */
  readonly preset?: true
  /** True if the option is `off`: no listener. */
  readonly off?: true
}

/** Address for `off`; its host is the default of `tcp_host`. */
export const CLOSED: ListenAddress = { host: '127.0.0.1', port: 0, off: true }

/** An additional traffic listener. */
export interface Listener {
  readonly listen: ListenAddress
  /** Terminates TLS. */
  readonly tls: boolean
  /** Port that clients use; the listener serves only edges with this port. */
  readonly public_port: number | undefined
  /** Trusted peers send the client's address in a PROXY header. */
  readonly proxy_protocol: boolean
  /** Path form of edges that do not set one; default: the option `path_form`. */
  readonly path_form?: 'strict' | 'lenient' | 'exact'
}

/** The upstream of the default entry. */
export interface UpstreamAddress {
  readonly protocol: 'http' | 'https'
  readonly host: string
  readonly port: number
  /** Path of a Unix domain socket; then `host` is `localhost` and `port` 0. */
  readonly socket?: string
  /** Prefix of each request's path, without a trailing slash; default: none. */
  readonly pathPrefix?: string
}

/** Requests allowed in a rolling window. */
export interface Rate {
  readonly requests: number
  /** Length in milliseconds. */
  readonly window: number
}

/** Range of ports, both ends included. */
export interface PortRange {
  readonly from: number
  readonly to: number
}

/** Value of the option `data` that stores nothing on disk. */
export const IN_MEMORY = ':memory:'

function own<P>(kind: OwnKind, shape: object, { description, default: preset }: OptionText) {
  const annotations = preset === undefined ? { description } : { description, default: preset }
  return parses<P>()(Type.Unsafe<unknown>({ ...shape, ...annotations, 'x-kind': kind }))
}

const ONE = { type: 'string' }
/** `what` describes one item. */
const several = (what: string) => ({ type: 'array', items: { ...ONE, description: what } })

export const address = (about: OptionText) => own<ListenAddress>('address', ONE, about)
/** An address, or `off`. */
export const addressOrOff = (about: OptionText) =>
  own<ListenAddress>('address-or-off', { type: ['string', 'boolean'] }, about)
/** Maps, or URLs such as `https://0.0.0.0:8443?public_port=443&proxy_protocol=on`. */
export const listeners = (about: OptionText) =>
  own<readonly Listener[]>('listeners', { type: ['array', 'string'] }, about)
export const upstream = (about: OptionText) => own<UpstreamAddress>('upstream', ONE, about)
/** `http(s)://host[:port]`. */
export const origin = (about: OptionText) => own<string>('origin', ONE, about)
/** `http(s)://host[:port][/path][?query]`, without user name and password. */
export const url = (about: OptionText) => own<string>('url', ONE, about)
/** Names and values: a map, or a list `name=value,…` with percent-encoded values. */
export const pairs = (about: OptionText) =>
  own<Readonly<Record<string, string>>>('pairs', { type: ['object', 'string'] }, about)
/** An absolute path; relative paths start at the folder of the file that contains them, or at the working directory. */
export const file = (about: OptionText) => own<string>('file', ONE, about)
/** A path, or `:memory:`. */
export const directory = (about: OptionText) => own<string>('directory', ONE, about)
/** A list of absolute paths. */
export const directories = (about: OptionText) => own<readonly string[]>('directories', several('A folder.'), about)
/** A folder, or a `postgres://` URL. */
export const store = (about: OptionText) => own<string>('store', ONE, about)
/** A host name in lower case, without a port. */
export const host = (about: OptionText) => own<string>('host', ONE, about)
/** Origins in the form that browsers send. */
export const origins = (about: OptionText) => own<readonly string[]>('origins', several('scheme://host[:port].'), about)
/** Short words; at least one. */
export const names = (about: OptionText) =>
  own<readonly string[]>('names', { ...several('Lower-case letters, digits and hyphens.'), minItems: 1 }, about)
/** `<requests>/<duration>`; `off` is undefined. */
export const rate = (about: OptionText) => own<Rate | undefined>('rate', { type: ['string', 'boolean'] }, about)
/** `auto`, or a number of threads. */
export const workers = (about: OptionText) => own<'auto' | number>('workers', { type: ['string', 'integer'] }, about)
/** A duration from `min` to `max` (milliseconds), or `off` for 0. */
export const interval = ({ min, max, ...about }: OptionText & { readonly min: number; readonly max: number }) =>
  own<number>('interval', { type: ['string', 'integer', 'boolean'], 'x-min': min, 'x-max': max }, about)
/** `<first>-<last>`. */
export const ports = (about: OptionText) => own<PortRange>('ports', ONE, about)
export const hosts = (about: OptionText) =>
  own<readonly string[]>('hosts', several('A host name or address without a port.'), about)
/** IP addresses in the forms `address`, `address:port` and `[address]:port`. */
export const nameServers = (about: OptionText) =>
  own<readonly string[]>('name-servers', several('An IP address, with a port if it is not 53.'), about)
/** Networks as written; `parseCidr` accepts each. */
export const networks = (about: OptionText) =>
  own<readonly string[]>('networks', several('A network such as 10.0.0.0/8.'), about)
/** `on` or `off`. */
export const switched = (about: OptionText) => own<boolean>('switch', { enum: ['on', 'off', true, false] }, about)

/** Result of reading a written value. `refused` describes the allowed values. */
export type Reading = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

export const ok = (value: unknown): Reading => ({ ok: true, value })
export const refuse = (refused: string): Reading => ({ ok: false, refused })

const ADDRESS = 'host:port, for example 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080 (port 0 takes a free one)'
const KEYS = ['listen', 'tls', 'public_port', 'proxy_protocol', 'path_form']
const URL_KEYS = ['public_port', 'proxy_protocol', 'path_form']

/** Reads an address to listen on. */
export function readAddress(written: unknown): Reading {
  if (typeof written !== 'string') return refuse(ADDRESS)
  const free = written.endsWith(':0')
  const authority = parseAuthority(free ? written.slice(0, -2) : written)
  if (authority === undefined || (authority.port === undefined) !== free) return refuse(ADDRESS)
  return ok({ host: authority.host, port: authority.port ?? 0 } satisfies ListenAddress)
}

/**
 * Reads a listener: a map, or a URL such as `https://0.0.0.0:8443?public_port=443&proxy_protocol=on`. A port without a host (`8080`,
 * `:8080`, `https://:8443`) listens on every IPv4 address; without a scheme, port 443 is https and others are http.
 */
export function readListener(written: unknown): Reading {
  if (typeof written === 'string' || typeof written === 'number') return readUrl(String(written))
  if (typeof written !== 'object' || written === null || Array.isArray(written)) {
    return refuse(`maps of ${KEYS.join(', ')}, or URLs such as https://0.0.0.0:8443?public_port=443`)
  }
  return readParts(written as Readonly<Record<string, unknown>>, KEYS)
}

function readUrl(written: string): Reading {
  const [, scheme, place, query = ''] = /^(?:(https?):\/\/)?([^/?#]+)\/?(?:\?([^#]*))?$/.exec(written) ?? []
  if (place === undefined) {
    return refuse(
      'URLs such as http://0.0.0.0:8081 or https://0.0.0.0:8443?public_port=443&proxy_protocol=on, or ports'
    )
  }
  const address = everywhere(place)
  if (scheme === undefined && /:443$/.test(address)) {
    return refuse(`https://${address}, or http://${address} where it has no TLS: port 443 alone does not say which`)
  }
  const parts: [string, unknown][] = [...new URLSearchParams(query)]
  const unknown = parts.find(([key]) => !URL_KEYS.includes(key))
  if (unknown !== undefined) return unknownKey(unknown[0], URL_KEYS)
  return readParts(Object.fromEntries([['listen', address], ['tls', scheme === 'https'], ...parts]), KEYS)
}

function readParts(parts: Readonly<Record<string, unknown>>, keys: readonly string[]): Reading {
  const unknown = Object.keys(parts).find((key) => !keys.includes(key))
  if (unknown !== undefined) return unknownKey(unknown, keys)
  const address = readAddress(
    typeof parts.listen === 'object' || parts.listen === undefined ? parts.listen : everywhere(parts.listen)
  )
  if (!address.ok) return refuse(`listeners whose listen is ${address.refused}`)
  const [tls, proxyProtocol] = [readSwitch(parts.tls), readSwitch(parts.proxy_protocol)]
  if (tls === undefined || proxyProtocol === undefined)
    return refuse('listeners whose tls and proxy_protocol are on or off')
  const publicPort = readPort(parts.public_port)
  if (publicPort === false) return refuse('listeners whose public_port is a whole number from 1 to 65535')
  const { path_form: form = undefined } = parts
  if (form !== undefined && form !== 'strict' && form !== 'lenient' && form !== 'exact') {
    return refuse('listeners whose path_form is strict, lenient or exact')
  }
  const listen = address.value as ListenAddress
  return ok({
    listen,
    tls,
    public_port: publicPort,
    proxy_protocol: proxyProtocol,
    ...(form === undefined ? {} : { path_form: form })
  } satisfies Listener)
}

/** Completes a port without a host: every IPv4 address. */
const everywhere = (place: unknown) => String(place).replace(/^(?:\*?:)?(\d{1,5})$/, '0.0.0.0:$1')

function unknownKey(key: string, keys: readonly string[]): Reading {
  return refuse(`listeners with ${keys.join(', ')} alone${didYouMean(key, keys)}`)
}

/** An omitted switch is off. */
function readSwitch(written: unknown): boolean | undefined {
  if (written === undefined || written === null || written === false || written === 'off') return false
  return written === true || written === 'on' ? true : undefined
}

/** Returns false if the value is not a port. */
function readPort(written: unknown): number | undefined | false {
  if (written === undefined || written === null) return undefined
  const port = typeof written === 'string' && /^\d{1,5}$/.test(written) ? Number(written) : written
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : false
}
