import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { formatAuthority, isPostgresUrl, parseAuthority } from '../lib/host.js'
import { parseCidr } from '../lib/ip.js'
import { didYouMean } from '../lib/suggest.js'
import { formatDuration, formatSize, parseDuration } from '../lib/units.js'
import { checkScalar } from '../schema/constraints.js'
import { FORMS, SOCKET_URL } from '../schema/formats.js'
import {
  CLOSED,
  IN_MEMORY,
  kindOf,
  type OptionKind,
  type OptionSchema,
  ok,
  type Reading,
  readAddress,
  readListener,
  refuse
} from './values.js'

type Reader = (written: unknown, schema: OptionSchema, base: string) => Reading

/**
 * Reads one option. `written` is a scalar or list of the options file, or the text of a variable or flag; relative paths start at the
 * folder `base`.
 */
export function readOption(written: unknown, schema: OptionSchema, base: string): Reading {
  return READERS[kindOf(schema)](written, schema, base)
}

const READERS: Readonly<Record<OptionKind, Reader>> = {
  address: (written) => readAddress(written),
  'address-or-off': (written) => (written === 'off' || written === false ? ok(CLOSED) : readAddress(written)),
  listeners: (written) => readList(written, readListener),
  upstream: (written) => readUpstream(written),
  origin: (written) => readOrigin(written),
  url: (written) => readWholeUrl(written),
  pairs: (written) => readPairs(written),
  file: (written, _, base) => readPath(written, base),
  directories: (written, _, base) => readList(written, (item) => readPath(item, base)),
  directory: (written, _, base) => (written === IN_MEMORY ? ok(IN_MEMORY) : readPath(written, base)),
  store: (written, _, base) => readStore(written, base),
  host: (written) => readHost(written, 'a host name without a port'),
  hosts: (written) => readList(written, (item) => readHost(item)),
  'name-servers': (written) => readList(written, (item) => readNameServer(item)),
  networks: (written) => readList(written, (item) => readNetwork(item)),
  origins: (written) => readList(written, (item) => readOrigin(item)),
  names: (written) => readNames(written),
  rate: (written) => readRate(written),
  ports: (written) => readPorts(written),
  workers: (written) => readWorkers(written),
  interval: (written, schema) => readInterval(written, schema),
  size: (written, schema) => bounded(written, schema, formatSize, 'a size such as 64KiB or 1GiB'),
  duration: (written, schema) =>
    bounded(written, schema, formatDuration, 'a duration such as 250ms, 10s or 1m30s, or a number of seconds'),
  integer: (written, schema) => bounded(numberOf(written, /^\d{1,15}$/), schema, String, 'a whole number'),
  fraction: (written, schema) => bounded(numberOf(written, /^(?:\d*\.)?\d+$/), schema, String, 'a number'),
  switch: (written) => {
    if (written === true || written === 'on' || written === 'true') return ok(true)
    if (written === false || written === 'off' || written === 'false') return ok(false)
    return refuse('on or off')
  },
  choice: (written, schema) => {
    const { value, findings } = checkScalar(schema, written)
    if (findings.length === 0) return ok(value)
    const words = (schema.enum ?? []) as readonly string[]
    const hint = typeof written === 'string' ? didYouMean(written, words) : ''
    return refuse(`${words.length > 1 ? 'one of ' : ''}${words.join(', ')}${hint}`)
  },
  text: (written, schema) => {
    const { value, findings } = checkScalar(schema, written)
    return findings.length === 0 ? ok(value) : refuse('text')
  }
}

/** Maximum number of worker threads. */
const MOST_WORKERS = 48

function readWorkers(written: unknown): Reading {
  if (written === 'auto') return ok('auto')
  const count = numberOf(written, /^\d{1,15}$/)
  if (typeof count === 'number' && Number.isInteger(count) && count >= 0 && count <= MOST_WORKERS) return ok(count)
  return refuse(`auto, or a whole number from 0 to ${MOST_WORKERS}`)
}

const isScalar = (written: unknown) => typeof written === 'string' || typeof written === 'number'

function readInterval(written: unknown, { 'x-min': min = 0, 'x-max': max = 0 }: OptionSchema): Reading {
  const off = written === false || written === 'off' || written === 0 || written === '0'
  const interval = off ? 0 : isScalar(written) ? parseDuration(String(written)) : undefined
  if (interval === 0 || (interval !== undefined && interval >= min && interval <= max)) return ok(interval)
  return refuse(`off, or a duration such as 5s, from ${formatDuration(min)} to ${formatDuration(max)}`)
}

/** Variables and flags arrive as strings. */
function numberOf(written: unknown, digits: RegExp): unknown {
  return typeof written === 'string' && digits.test(written) ? Number(written) : written
}

function bounded(written: unknown, schema: OptionSchema, format: (n: number) => string, what: string): Reading {
  const { value, findings } = checkScalar(schema, written)
  if (findings.length === 0) return ok(value)
  const { minimum = schema['x-min'] ?? 0, maximum = schema['x-max'] ?? Number.MAX_SAFE_INTEGER } = schema
  const between = schema.type === 'number' ? ' from' : ', from'
  return refuse(`${what}${between} ${format(minimum)} to ${format(maximum)}`)
}

function readPorts(written: unknown): Reading {
  const [, first, last] = typeof written === 'string' ? (/^(\d{1,5})-(\d{1,5})$/.exec(written) ?? []) : []
  const [from, to] = [Number(first ?? 0), Number(last ?? 0)]
  return from >= 1024 && from <= to && to <= 65_535
    ? ok({ from, to })
    : refuse('two ports such as 20000-20999, from 1024 to 65535')
}

/** Host and port without a scheme (`localhost:3000`), read as http. */
const BARE_UPSTREAM = /^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):\d{1,5}(?:\/.*)?$/i

function readUpstream(written: unknown): Reading {
  const allowed = 'http://host:port or https://host:port, with a path or without, or http://unix:/run/app.sock'
  const [, scheme = 'http', socket, path = ''] = SOCKET_URL.exec(String(written)) ?? []
  const isBare = typeof written === 'string' && BARE_UPSTREAM.test(written)
  const url = socket === undefined ? readUrl(isBare ? `http://${written}` : written) : undefined
  if (!/^https?$/i.test(scheme) || (socket === undefined && url === undefined))
    return refuse(`${allowed}${whatIsWrong(written)}`)
  const protocol = (url?.protocol.slice(0, -1) ?? scheme).toLowerCase() === 'https' ? 'https' : 'http'
  const prefix = FORMS.path_prefix(url?.pathname ?? path)
  if (!prefix.ok) return refuse(`${allowed}; its path ${prefix.refused}`)
  const base = { protocol, ...(prefix.text === '' ? {} : { pathPrefix: prefix.text }) }
  if (url === undefined) {
    const place = FORMS.upstream_address(`unix:${socket}`)
    return place.ok ? ok({ ...base, host: 'localhost', port: 0, socket }) : refuse(`${allowed}; it ${place.refused}`)
  }
  if (url.username !== '' || url.password !== '') return refuse(`${allowed}, without user name and password`)
  if (url.search !== '' || url.hash !== '') return refuse(`${allowed}, without a query`)
  const port = url.port === '' ? (protocol === 'https' ? 443 : 80) : Number(url.port)
  if (port === 0) return refuse(`${allowed}, with a port from 1 to 65535`)
  return ok({ ...base, host: url.hostname.replace(/^\[|\]$/g, ''), port })
}

/** Returns a known reason why a text is not a URL, to append to a message after a semicolon. */
function whatIsWrong(written: unknown): string {
  if (typeof written !== 'string') return ''
  const [, scheme, rest = ''] = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(.*)$/i.exec(written) ?? []
  const port = /:(\d+)(?:[/?#]|$)/.exec(rest)?.[1]
  if (port !== undefined && Number(port) > HIGHEST_PORT) return `; ${port} is no port, the highest is ${HIGHEST_PORT}`
  if (scheme === undefined) return written === '' ? '' : `; the beginning is missing, such as http://${written}`
  return /^https?$/i.test(scheme) ? '' : `; ${scheme}:// is none of the two`
}

const HIGHEST_PORT = 65_535

function readOrigin(written: unknown): Reading {
  const url = readUrl(written)
  if (
    url === undefined ||
    url.username !== '' ||
    url.password !== '' ||
    url.pathname !== '/' ||
    url.search + url.hash !== ''
  ) {
    return refuse('http://host or https://host, with a port if needed and without a path')
  }
  return ok(url.origin)
}

function readWholeUrl(written: unknown): Reading {
  const url = readUrl(written)
  return url === undefined || url.username !== '' || url.password !== '' || url.hash !== ''
    ? refuse('http://host or https://host, with a port and a path if needed, without user name and password')
    : ok(url.href)
}

const PAIRS = 'a map of names and texts, or name=value with commas between, values percent-encoded'
/** A token (RFC 9110 5.6.2) and the punctuation of resource names. */
const PAIR_NAME = /^[!#$%&'*+\-.^_`|~/0-9A-Za-z]+$/

/** A map, or the W3C Baggage form without properties. Values are visible ASCII and spaces, or any text where it is encoded. */
function readPairs(written: unknown): Reading {
  const pairs: Record<string, string> = {}
  const entries: (readonly [string, unknown])[] = []
  if (typeof written === 'string') {
    for (const part of written.split(',')) {
      if (part.trim() === '') continue
      const equals = part.indexOf('=')
      if (equals === -1) return refuse(PAIRS)
      try {
        entries.push([part.slice(0, equals).trim(), decodeURIComponent(part.slice(equals + 1).trim())])
      } catch {
        return refuse(PAIRS)
      }
    }
  } else if (typeof written === 'object' && written !== null && !Array.isArray(written)) {
    entries.push(...Object.entries(written))
  } else return refuse(PAIRS)
  for (const [name, value] of entries) {
    if (!PAIR_NAME.test(name) || !['string', 'number', 'boolean'].includes(typeof value)) return refuse(PAIRS)
    if (name === '__proto__') return refuse(PAIRS)
    pairs[name] = String(value)
  }
  return ok(pairs)
}

function readUrl(written: unknown): URL | undefined {
  if (typeof written !== 'string' || !/^https?:\/\/[^/]/i.test(written) || !URL.canParse(written)) return undefined
  return new URL(written)
}

function readPath(written: unknown, base: string): Reading {
  return typeof written === 'string' && written !== '' && !written.includes('\0')
    ? ok(resolve(base, written))
    : refuse('a path')
}

function readStore(written: unknown, base: string): Reading {
  if (written === IN_MEMORY) return ok(IN_MEMORY)
  const allowed = 'a path, :memory: or postgres://user:password@host/database'
  if (typeof written !== 'string' || !/^[a-z][a-z0-9+.-]*:\/\//i.test(written)) {
    const path = readPath(written, base)
    return path.ok ? path : refuse(allowed)
  }
  return isPostgresUrl(written) && URL.canParse(written) ? ok(written) : refuse(allowed)
}

const MOST_REQUESTS = 1_000_000
const LONGEST_WINDOW = 3_600_000

function readRate(written: unknown): Reading {
  if (written === false || written === 'off') return ok(undefined)
  const [, digits = '', duration = ''] = typeof written === 'string' ? (/^(\d{1,7})\/(.+)$/.exec(written) ?? []) : []
  const requests = Number(digits)
  const window = parseDuration(duration)
  const fits =
    requests >= 1 && requests <= MOST_REQUESTS && window !== undefined && window >= 1 && window <= LONGEST_WINDOW
  return fits ? ok({ requests, window }) : refuse('off or requests/duration such as 600/60s, up to 1000000 and 1h')
}

function readNames(written: unknown): Reading {
  const names = readList(written, (item) =>
    typeof item === 'string' && /^[a-z0-9][a-z0-9-]{0,62}$/.test(item)
      ? ok(item)
      : refuse('names of lower-case letters, digits and hyphens')
  )
  return names.ok && (names.value as readonly string[]).length === 0 ? refuse('a list with at least one name') : names
}

/** Reads a list of the file, or items separated by commas. */
function readList(written: unknown, read: (item: unknown) => Reading): Reading {
  const items =
    typeof written === 'string'
      ? written
          .split(',')
          .map((item) => item.trim())
          .filter((item) => item !== '')
      : written
  if (!Array.isArray(items)) return refuse('a list')
  const values: unknown[] = []
  for (const item of items as unknown[]) {
    const reading = read(item)
    if (!reading.ok) return refuse(`a list of ${reading.refused}; ${JSON.stringify(item)} is none`)
    values.push(reading.value)
  }
  return ok(values)
}

function readHost(item: unknown, allowed = 'host names without a port'): Reading {
  const authority = typeof item === 'string' ? parseAuthority(isIP(item) === 6 ? `[${item}]` : item) : undefined
  return authority === undefined || authority.port !== undefined ? refuse(allowed) : ok(authority.host)
}

function readNameServer(item: unknown): Reading {
  const authority = typeof item === 'string' ? parseAuthority(isIP(item) === 6 ? `[${item}]` : item) : undefined
  return authority === undefined || isIP(authority.host) === 0 || authority.port === 0
    ? refuse('IP addresses of DNS servers, with a port if it is not 53')
    : ok(formatAuthority(authority.host, authority.port ?? 53))
}

function readNetwork(item: unknown): Reading {
  const network = typeof item === 'string' ? parseCidr(item) : undefined
  return network === undefined ? refuse('networks such as 10.0.0.0/8 or 2001:db8::/32') : ok(network.text)
}
