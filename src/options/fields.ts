import Type, { type TUnsafe } from 'typebox'

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
