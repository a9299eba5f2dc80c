import Type, { type TUnsafe } from 'typebox'
import { parseAuthority } from '../lib/host.js'
import { didYouMean } from '../lib/suggest.js'

/**
 * The field vocabulary of the options file: TypeBox schemas whose annotation `x-kind` says how the written form is
 * read. `Static` of a field is what the program works with (milliseconds, bytes, host and port), the schema itself
 * describes what people write. `read.ts` has one reader for each kind.
 */
export type OptionKind =
  | 'address'
  | 'listeners'
  | 'upstream'
  | 'origin'
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
  | 'size'
  | 'duration'
  | 'integer'
  | 'fraction'
  | 'switch'
  | 'choice'
  | 'text'

/** What every option says of itself; `default` is in the form that people write. */
export interface OptionText {
  readonly description: string
  readonly default?: unknown
}

/** A schema as the reader sees it. */
export interface OptionSchema extends OptionText {
  readonly 'x-kind': OptionKind
  readonly minimum?: number
  readonly maximum?: number
  readonly enum?: readonly string[]
}

/** Where to listen. Port 0 takes a free one. */
export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** A further place where traffic is accepted. */
export interface Listener {
  readonly listen: ListenAddress
  /** TLS ends here. */
  readonly tls: boolean
  /** The port that clients know; then only edges with this port are served here. */
  readonly public_port: number | undefined
  /** Trusted peers say in a PROXY header whom they speak for. */
  readonly proxy_protocol: boolean
  /** The form of paths on edges that do not say; absent: that of the option `path_form`. */
  readonly path_form?: 'strict' | 'lenient'
}

/** The one upstream of the default entry. */
export interface UpstreamAddress {
  readonly protocol: 'http' | 'https'
  readonly host: string
  readonly port: number
}

/** How many requests may come in a window that rolls. */
export interface Rate {
  readonly requests: number
  /** Milliseconds. */
  readonly window: number
}

/** Ports; both ends belong to them. */
export interface PortRange {
  readonly from: number
  readonly to: number
}

/** The value of the option `data` that keeps nothing on disk. */
export const IN_MEMORY = ':memory:'

function field<T>(kind: OptionKind, shape: object, text: OptionText): TUnsafe<T> {
  return Type.Unsafe<T>({ ...shape, ...text, 'x-kind': kind })
}

export const address = (text: OptionText) => field<ListenAddress>('address', { type: 'string' }, text)
/** Maps, or URLs such as `https://0.0.0.0:8443?public_port=443&proxy_protocol=on`. */
export const listeners = (text: OptionText) =>
  field<readonly Listener[]>('listeners', { type: ['array', 'string'] }, text)
export const upstream = (text: OptionText) => field<UpstreamAddress>('upstream', { type: 'string' }, text)
/** `http(s)://host[:port]`. */
export const origin = (text: OptionText) => field<string>('origin', { type: 'string' }, text)
/** An absolute path; relative ones start at the folder of the file that names them, or at the working directory. */
export const file = (text: OptionText) => field<string>('file', { type: 'string' }, text)
/** As `file`, or `:memory:`. */
export const directory = (text: OptionText) => field<string>('directory', { type: 'string' }, text)
/** Absolute paths, like that of `file`. */
export const directories = (text: OptionText) =>
  field<readonly string[]>('directories', { type: 'array', items: { type: 'string' } }, text)
/** As `directory`, or a `postgres://` URL. */
export const store = (text: OptionText) => field<string>('store', { type: 'string' }, text)
/** A host name without a port, lower-case. */
export const host = (text: OptionText) => field<string>('host', { type: 'string' }, text)
/** Origins as browsers write them. */
export const origins = (text: OptionText) =>
  field<readonly string[]>('origins', { type: 'array', items: { type: 'string' } }, text)
/** Short words, at least one. */
export const names = (text: OptionText) =>
  field<readonly string[]>('names', { type: 'array', items: { type: 'string' }, minItems: 1 }, text)
/** `<requests>/<duration>`; `off` is undefined. */
export const rate = (text: OptionText) => field<Rate | undefined>('rate', { type: ['string', 'boolean'] }, text)
/** `<first>-<last>`. */
export const ports = (text: OptionText) => field<PortRange>('ports', { type: 'string' }, text)
export const hosts = (text: OptionText) =>
  field<readonly string[]>('hosts', { type: 'array', items: { type: 'string' } }, text)
/** IP addresses as `address`, `address:port` or `[address]:port`. */
export const nameServers = (text: OptionText) =>
  field<readonly string[]>('name-servers', { type: 'array', items: { type: 'string' } }, text)
/** Networks as written; each one is readable by `parseCidr`. */
export const networks = (text: OptionText) =>
  field<readonly string[]>('networks', { type: 'array', items: { type: 'string' } }, text)
/** Bytes. Bounds in bytes. */
export const size = (text: OptionText & { minimum: number; maximum: number }) =>
  field<number>('size', { type: ['string', 'integer'] }, text)
/** Milliseconds. Bounds in milliseconds; 0 switches off where the minimum is 0. */
export const duration = (text: OptionText & { minimum: number; maximum: number }) =>
  field<number>('duration', { type: 'string' }, text)
export const integer = (text: OptionText & { minimum: number; maximum: number }) =>
  field<number>('integer', { type: 'integer' }, text)
/** A number from 0 to 1. */
export const fraction = (text: OptionText) =>
  field<number>('fraction', { type: 'number', minimum: 0, maximum: 1 }, text)
/** `on` or `off`. */
export const switched = (text: OptionText) => field<boolean>('switch', { enum: ['on', 'off', true, false] }, text)
export const choice = <const W extends readonly string[]>(words: W, text: OptionText) =>
  field<W[number]>('choice', { enum: words }, text)
export const text = (options: OptionText) => field<string>('text', { type: 'string' }, options)

/** What a reader made of a written value. `refused` says what is allowed. */
export type Reading = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

export const ok = (value: unknown): Reading => ({ ok: true, value })
export const refuse = (refused: string): Reading => ({ ok: false, refused })

const ADDRESS = 'host:port, for example 127.0.0.1:8080, 0.0.0.0:80 or [::1]:8080 (port 0 takes a free one)'
const KEYS = ['listen', 'tls', 'public_port', 'proxy_protocol', 'path_form']
const URL_KEYS = ['public_port', 'proxy_protocol', 'path_form']

/** An address to listen on. */
export function readAddress(written: unknown): Reading {
  if (typeof written !== 'string') return refuse(ADDRESS)
  const free = written.endsWith(':0')
  const authority = parseAuthority(free ? written.slice(0, -2) : written)
  if (authority === undefined || (authority.port === undefined) !== free) return refuse(ADDRESS)
  return ok({ host: authority.host, port: authority.port ?? 0 } satisfies ListenAddress)
}

/** A listener: a map, or a URL such as `https://0.0.0.0:8443?public_port=443&proxy_protocol=on`. */
export function readListener(written: unknown): Reading {
  if (typeof written === 'string') return readUrl(written)
  if (typeof written !== 'object' || written === null || Array.isArray(written)) {
    return refuse(`maps of ${KEYS.join(', ')}, or URLs such as https://0.0.0.0:8443?public_port=443`)
  }
  return readParts(written as Readonly<Record<string, unknown>>, KEYS)
}

function readUrl(written: string): Reading {
  const [, scheme, address, query = ''] = /^(https?):\/\/([^/?#]+)\/?(?:\?([^#]*))?$/.exec(written) ?? []
  if (scheme === undefined) {
    return refuse('URLs such as http://0.0.0.0:8081 or https://0.0.0.0:8443?public_port=443&proxy_protocol=on')
  }
  const parts: [string, unknown][] = [...new URLSearchParams(query)]
  const unknown = parts.find(([key]) => !URL_KEYS.includes(key))
  if (unknown !== undefined) return unknownKey(unknown[0], URL_KEYS)
  return readParts(Object.fromEntries([['listen', address], ['tls', scheme === 'https'], ...parts]), KEYS)
}

function readParts(parts: Readonly<Record<string, unknown>>, keys: readonly string[]): Reading {
  const unknown = Object.keys(parts).find((key) => !keys.includes(key))
  if (unknown !== undefined) return unknownKey(unknown, keys)
  const address = readAddress(parts.listen)
  if (!address.ok) return refuse(`listeners whose listen is ${address.refused}`)
  const [tls, proxyProtocol] = [readSwitch(parts.tls), readSwitch(parts.proxy_protocol)]
  if (tls === undefined || proxyProtocol === undefined)
    return refuse('listeners whose tls and proxy_protocol are on or off')
  const publicPort = readPort(parts.public_port)
  if (publicPort === false) return refuse('listeners whose public_port is a whole number from 1 to 65535')
  const { path_form: form = undefined } = parts
  if (form !== undefined && form !== 'strict' && form !== 'lenient') {
    return refuse('listeners whose path_form is strict or lenient')
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

function unknownKey(key: string, keys: readonly string[]): Reading {
  return refuse(`listeners with ${keys.join(', ')} alone${didYouMean(key, keys)}`)
}

/** Left out: off. */
function readSwitch(written: unknown): boolean | undefined {
  if (written === undefined || written === null || written === false || written === 'off') return false
  return written === true || written === 'on' ? true : undefined
}

/** False: it is no port. */
function readPort(written: unknown): number | undefined | false {
  if (written === undefined || written === null) return undefined
  const port = typeof written === 'string' && /^\d{1,5}$/.test(written) ? Number(written) : written
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : false
}
