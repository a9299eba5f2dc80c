import { promises as dns, type RecordWithTtl } from 'node:dns'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { domainToASCII } from 'node:url'
import type { Clock } from '../clock.js'
import { atMost } from '../concurrency.js'
import { codeOf } from '../errors.js'
import { type Lookup, type LookupResult, type LookupSource, type Resolved, ServerSilence } from './lookups.js'
import { askServices, type Service } from './services.js'
import { parseHosts, parseSearchRules, type SearchRules, WatchedFile } from './system-files.js'

interface OwnResolverParts {
  /** `address` or `address:port`; empty for those of the system's file. */
  readonly servers: readonly string[]
  readonly clock: Clock
  /** Alternative system files. */
  readonly files?: { readonly hosts: string; readonly resolver: string }
  /** Called with each completed lookup, except of addresses and invalid names. Must not throw. */
  readonly looked?: ((lookup: Lookup) => void) | undefined
  /** In milliseconds of real time. */
  readonly patience?: Partial<typeof PATIENCE>
}

/** Timeouts: `deadline` of a lookup, `stale` before known expired addresses are used, `family` for the second address family (ms). */
const PATIENCE = { deadline: 5_000, stale: 1_800, family: 250 }
/** Timeout of a query to a server, doubled for its repetition (ms), and the number of attempts. */
const ASKING = { timeout: 1_500, tries: 2 }
/** Paths of the system's files. */
const FILES = { hosts: '/etc/hosts', resolver: '/etc/resolv.conf' }

const SECOND = 1_000
/** Maximum time to live, and the cache times for missing names and failures (ms). */
const REMEMBERED = { found: 86_400 * SECOND, nothing: 5 * SECOND, failed: SECOND, local: 5 * SECOND }
/** Maximum age of expired addresses while no server responds (RFC 8767; ms). */
const STALE = 3_600 * SECOND
/** Maximum number of cached names. */
const MOST_KNOWN = 10_000
/** Maximum number of concurrent queries. */
const MOST_ASKED = 2_000
/** Error codes of a missing name. */
const NOTHING = new Set(['ENOTFOUND', 'ENODATA'])
/** Loopback addresses (RFC 6761 6.3). */
const LOOPBACK = ['127.0.0.1', '::1']

type Family = 4 | 6
type Answer =
  | { readonly is: 'found'; readonly addresses: readonly string[]; readonly ttl: number }
  | { readonly is: 'nothing' }
  | { readonly is: 'failed'; readonly why: string }

/** Cache entry of a name. Times are monotonic milliseconds. */
interface Known {
  readonly answer: Answer
  expires: number
  /** Number of lookups so far, for balancing among addresses. */
  turn: number
}

/**
 * Queries DNS servers outside the thread pool, so that an unanswered name delays only itself. Responses are cached for their lifetime;
 * concurrent lookups of a name share one query.
 */
export class OwnResolver {
  readonly #clock: Clock
  readonly #servers: readonly string[]
  readonly #hosts: WatchedFile<ReadonlyMap<string, readonly string[]>>
  readonly #rules: WatchedFile<SearchRules>
  readonly #patience: typeof PATIENCE
  readonly #looked: (lookup: Lookup) => void
  readonly #silence: ServerSilence
  readonly #known = new Map<string, Known>()
  readonly #asked = new Map<string, Promise<Known>>()
  #resolver: { readonly rules: SearchRules; readonly dns: dns.Resolver } | undefined

  constructor({ servers, clock, files = FILES, looked = () => undefined, patience }: OwnResolverParts) {
    this.#clock = clock
    this.#servers = servers
    this.#hosts = new WatchedFile(files.hosts, parseHosts, clock)
    this.#rules = new WatchedFile(files.resolver, parseSearchRules, clock)
    this.#patience = { ...PATIENCE, ...patience }
    this.#looked = looked
    this.#silence = new ServerSilence(clock, () => this.#root())
  }

  /** See `Names.lookup`. */
  async lookup(host: string): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host]
    const name = nameOf(host)
    if (name === undefined || isBelow(name, 'invalid') || isBelow(name, 'onion')) throw unresolved('ENOTFOUND', host)
    const now = this.#clock.monotonic()
    const ended = (result: LookupResult, source: LookupSource) =>
      this.#looked({ name, result, source, milliseconds: this.#clock.monotonic() - now })
    const fixed = isBelow(name, 'localhost') ? LOOPBACK : this.#hosts.read().get(withoutDot(name))
    if (fixed !== undefined) {
      ended('found', 'local')
      return fixed
    }
    const known = this.#known.get(name)
    if (known !== undefined && now < known.expires) {
      ended(resultOf(known.answer), 'cache')
      return addressesOf(known, host)
    }
    const old = known?.answer.is === 'found' && now < known.expires + STALE ? known : undefined
    const { deadline, stale } = this.#patience
    const found = await atMost(old === undefined ? deadline : stale, this.#ask(name))
    if (found !== undefined && (old === undefined || found.answer.is !== 'failed')) {
      ended(resultOf(found.answer), 'server')
      return addressesOf(found, host)
    }
    if (old === undefined) {
      ended('timed_out', 'server')
      throw unresolved('EAI_AGAIN', host, 'no answer in time')
    }
    ended('found', 'stale')
    // Further lookups do not wait again immediately.
    old.expires = Math.max(old.expires, this.#clock.monotonic() + REMEMBERED.failed)
    return addressesOf(old, host)
  }

  /** See `Names.resolve`. */
  async resolve(host: string): Promise<Resolved> {
    const now = this.#clock.monotonic()
    if (isIP(host) !== 0) return { found: [host], expires: Number.POSITIVE_INFINITY }
    const name = nameOf(host)
    if (name === undefined || isBelow(name, 'invalid') || isBelow(name, 'onion')) throw unresolved('ENOTFOUND', host)
    const fixed = isBelow(name, 'localhost') ? LOOPBACK : this.#hosts.read().get(withoutDot(name))
    if (fixed !== undefined) return { found: fixed, expires: now + REMEMBERED.local }
    const known = this.#known.get(name)
    const cached = known !== undefined && now < known.expires
    const found = cached ? known : await atMost(this.#patience.deadline, this.#ask(name))
    const result = found === undefined ? 'timed_out' : resultOf(found.answer)
    const milliseconds = this.#clock.monotonic() - now
    this.#looked({ name, result, source: cached ? 'cache' : 'server', milliseconds })
    if (found === undefined) throw unresolved('EAI_AGAIN', host, 'no answer in time')
    if (found.answer.is !== 'found') throw refusalOf(found.answer, host)
    return { found: found.answer.addresses, expires: found.expires }
  }

  /** See `Names.services`. */
  async services(name: string): Promise<Resolved<Service>> {
    const begun = this.#clock.monotonic()
    const ended = (result: LookupResult) =>
      this.#looked({ name, result, source: 'server', milliseconds: this.#clock.monotonic() - begun })
    try {
      const { services, ttl } = await askServices(this.#current(this.#rules.read()).getServers(), name, ASKING)
      ended('found')
      return { found: services, expires: this.#clock.monotonic() + Math.min(ttl * SECOND, REMEMBERED.found) }
    } catch (error) {
      const code = codeOf(error)
      ended(code === 'ENOTFOUND' ? 'not_found' : code === 'ETIMEOUT' ? 'timed_out' : 'failed')
      throw error
    }
  }

  /** Returns whether no DNS server responds at all. */
  silent(): boolean {
    return this.#silence.holds
  }

  /** Cancels pending queries. */
  close(): void {
    this.#resolver?.dns.cancel()
  }

  /** Never rejects because of a server; the promise is shared by all lookups of the name. */
  async #ask(name: string): Promise<Known> {
    const under = this.#asked.get(name)
    if (under !== undefined) return await under
    if (this.#asked.size >= MOST_ASKED) {
      return { answer: { is: 'failed', why: 'too many names are being looked up' }, expires: 0, turn: 0 }
    }
    const asking = this.#completed(name).then((answer) => this.#remember(name, answer))
    this.#asked.set(name, asking)
    try {
      return await asking
    } finally {
      this.#asked.delete(name)
    }
  }

  #remember(name: string, answer: Answer): Known {
    const life = answer.is === 'found' ? Math.min(answer.ttl * SECOND, REMEMBERED.found) : REMEMBERED[answer.is]
    const known: Known = { answer, expires: this.#clock.monotonic() + life, turn: 0 }
    const before = this.#known.get(name)
    // Old addresses may still help if a server fails.
    if (answer.is === 'failed' && before?.answer.is === 'found') return known
    this.#known.delete(name)
    this.#known.set(name, known)
    if (this.#known.size > MOST_KNOWN) {
      for (const oldest of this.#known.keys()) {
        this.#known.delete(oldest)
        break
      }
    }
    return known
  }

  /** Tries the name as given and with the search domains, in the order of the rules; returns the first that exists. */
  async #completed(name: string): Promise<Answer> {
    const rules = this.#rules.read()
    const resolver = this.#current(rules)
    const ends = this.#clock.monotonic() + this.#patience.deadline
    let last: Answer = { is: 'nothing' }
    for (const candidate of candidates(name, rules)) {
      last = await this.#both(resolver, candidate)
      // A name without a response could exist: a later one must not take its place.
      if (last.is !== 'nothing' || this.#clock.monotonic() > ends) return last
    }
    return last
  }

  /** Queries IPv4 and IPv6 concurrently. A server that drops queries for one family delays the lookup only briefly. */
  async #both(resolver: dns.Resolver, name: string): Promise<Answer> {
    const first: Family = hasPublicIpv6() ? 6 : 4
    const preferred = this.#family(resolver, name, first)
    const other = this.#family(resolver, name, first === 4 ? 6 : 4)
    const early = await Promise.race([preferred, first === 6 ? other : preferred])
    const both = Promise.all([preferred, other])
    const answers = early.is === 'found' ? ((await atMost(this.#patience.family, both)) ?? [early]) : await both
    const found = answers.flatMap((answer) => (answer.is === 'found' ? [answer] : []))
    if (found.length === 0) return answers.find(({ is }) => is === 'failed') ?? { is: 'nothing' }
    return {
      is: 'found',
      addresses: found.flatMap(({ addresses }) => addresses),
      ttl: Math.min(...found.map(({ ttl }) => ttl))
    }
  }

  async #family(resolver: dns.Resolver, name: string, family: Family): Promise<Answer> {
    const answer = await ask(resolver, name, family)
    this.#silence.ended(answer.is === 'failed' ? answer.why : undefined)
    return answer
  }

  /** Queries the root's servers, to which every server responds. Resolves with the code of its failure. */
  async #root(): Promise<string | undefined> {
    try {
      await this.#current(this.#rules.read()).resolveNs('.')
      return undefined
    } catch (error) {
      return codeOf(error)
    }
  }

  /** Uses the current servers of the system's file. */
  #current(rules: SearchRules): dns.Resolver {
    if (this.#resolver === undefined || (this.#resolver.rules !== rules && this.#servers.length === 0)) {
      const resolver = new dns.Resolver(ASKING)
      if (this.#servers.length > 0) resolver.setServers(this.#servers)
      this.#resolver = { rules, dns: resolver }
    }
    return this.#resolver.dns
  }
}

async function ask(resolver: dns.Resolver, name: string, family: Family): Promise<Answer> {
  try {
    const records: RecordWithTtl[] =
      family === 4 ? await resolver.resolve4(name, { ttl: true }) : await resolver.resolve6(name, { ttl: true })
    if (records.length === 0) return { is: 'nothing' }
    const ttl = Math.min(...records.map((record) => record.ttl))
    return { is: 'found', addresses: records.map(({ address }) => address), ttl }
  } catch (error) {
    const code = codeOf(error) ?? 'EFAIL'
    return NOTHING.has(code) ? { is: 'nothing' } : { is: 'failed', why: code }
  }
}

function resultOf(answer: Answer): LookupResult {
  if (answer.is === 'failed') return answer.why === 'ETIMEOUT' ? 'timed_out' : 'failed'
  return answer.is === 'found' ? 'found' : 'not_found'
}

function refusalOf(answer: Exclude<Answer, { is: 'found' }>, host: string): Error {
  return answer.is === 'nothing' ? unresolved('ENOTFOUND', host) : unresolved('EAI_AGAIN', host, answer.why)
}

/** Rotates the addresses of each family; the order of families is fixed. */
function addressesOf(known: Known, host: string): readonly string[] {
  const { answer } = known
  if (answer.is !== 'found') throw refusalOf(answer, host)
  const turn = known.turn++
  const [first = ''] = answer.addresses
  const same = answer.addresses.filter((address) => isIP(address) === isIP(first))
  const rest = answer.addresses.filter((address) => isIP(address) !== isIP(first))
  return [...turned(same, turn), ...turned(rest, turn)]
}

function turned(list: readonly string[], by: number): string[] {
  const at = list.length === 0 ? 0 : by % list.length
  return [...list.slice(at), ...list.slice(0, at)]
}

function candidates(name: string, { domains, dots }: SearchRules): readonly string[] {
  const plain = withoutDot(name)
  if (plain !== name) return [plain]
  const completed = domains.map((domain) => `${name}.${domain}`)
  return name.split('.').length - 1 >= dots ? [name, ...completed] : [...completed, name]
}

/** Normalizes a name to lower case and DNS letters (RFC 5891); a trailing dot marks it as complete. Returns undefined for invalid names. */
function nameOf(host: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the letters of ASCII
  const name = /^[\u0000-\u007f]*$/.test(host) ? host.toLowerCase() : domainToASCII(host)
  if (name.length > 254 || !/^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?$/.test(name)) return undefined
  // A last label of digits would be an address in a short form (RFC 3696 2).
  return /(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$/.test(name) ? undefined : name
}

function withoutDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name
}

function isBelow(name: string, domain: string): boolean {
  const plain = withoutDot(name)
  return plain === domain || plain.endsWith(`.${domain}`)
}

/** IPv6 is preferred if the machine has a public IPv6 address (RFC 6724). */
function hasPublicIpv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses = []) =>
    addresses.some(({ family, internal, address }) => family === 'IPv6' && !internal && !address.startsWith('fe80:'))
  )
}

/** Creates the error for a name without an address, in the form of system errors. */
export function unresolved(code: 'ENOTFOUND' | 'EAI_AGAIN', host: string, why = ''): NodeJS.ErrnoException {
  const text = code === 'ENOTFOUND' ? 'the name has no address' : 'the name could not be looked up'
  const error: NodeJS.ErrnoException = new Error(`${code}: ${text}${why === '' ? '' : ` (${why})`}: ${host}`)
  error.code = code
  error.syscall = 'lookup'
  return error
}
