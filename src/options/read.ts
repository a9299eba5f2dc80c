import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { formatAuthority, isPostgresUrl, parseAuthority } from '../lib/host.js'
import { parseCidr } from '../lib/ip.js'
import { didYouMean } from '../lib/suggest.js'
import { formatDuration, formatSize, parseDuration } from '../lib/units.js'
import { checkScalar } from '../schema/constraints.js'
import {
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
 * Reads one option.
 *
 * `written` is a scalar or list of the options file, or the text of a variable or flag; `base` is the folder where
 * relative paths start.
 */
export function readOption(written: unknown, schema: OptionSchema, base: string): Reading {
  return READERS[kindOf(schema)](written, schema, base)
}

const READERS: Readonly<Record<OptionKind, Reader>> = {
  address: (written) => readAddress(written),
  listeners: (written) => readList(written, readListener),
  upstream: (written) => readUpstream(written),
  origin: (written) => readOrigin(written),
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
  size: (written, schema) => bounded(written, schema, formatSize, 'a size such as 64KiB or 1GiB'),
  duration: (written, schema) => bounded(written, schema, formatDuration, 'a duration such as 250ms, 10s or 1m30s'),
  integer: (written, schema) => bounded(numberOf(written, /^\d{1,15}$/), schema, String, 'a whole number'),
  fraction: (written, schema) => bounded(numberOf(written, /^\d*\.?\d+$/), schema, String, 'a number'),
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

/** Variables and flags are texts. */
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

function readUpstream(written: unknown): Reading {
  const allowed = 'http://host:port or https://host:port'
  const url = readUrl(written)
  if (url === undefined) return refuse(allowed)
  if (url.username !== '' || url.password !== '') return refuse(`${allowed}, without user name and password`)
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    return refuse(
      `${allowed}, without a path: the path of each request goes to the upstream (a policy can change it with url-rewrite)`
    )
  }
  const protocol = url.protocol === 'https:' ? 'https' : 'http'
  const port = url.port === '' ? (protocol === 'https' ? 443 : 80) : Number(url.port)
  if (port === 0) return refuse(`${allowed}, with a port from 1 to 65535`)
  return ok({ protocol, host: url.hostname.replace(/^\[|\]$/g, ''), port })
}

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

/** A list in the file, or its items joined by commas. */
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
