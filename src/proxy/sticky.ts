import { hkdfSync } from 'node:crypto'
import { type Flow, flowSlot } from '../flow/flow.js'
import type { HeaderFields } from '../flow/headers.js'
import { hasCookie, isSecure } from '../flow/reserved-paths.js'
import type { Clock } from '../lib/clock.js'
import { openText, sealText } from '../lib/sealed-text.js'
import type { Sticky } from '../runtime/plan.js'

/** Begins the value of each of our cookies, so that none of them goes to an upstream, whichever backend it is of. */
const MARK = 'slb1.'
const PURPOSE = 'sticky'
const KEY_BYTES = 32
/** Longer values are none of ours. */
const LONGEST = 512
/** Clocks of the processes of one cluster may differ by that much. Milliseconds. */
const CLOCK_DIFFERENCE = 60_000
/** Cookies of one generation that stay open; two of them are kept. */
const REMEMBERED = 4_096

/** The choice of one backend that a client keeps: what goes into its cookie once the server has answered. */
export interface Stick {
  /** Key of the unit that has chosen. */
  readonly owner: string
  readonly sticky: Sticky
  /** Name of the member that was chosen. */
  readonly member: string
  /** The client has a cookie that says the same and is not to be renewed. */
  readonly kept: boolean
}

/** What a cookie says. */
interface Held {
  readonly owner: string
  readonly member: string
  /** Wall clock, milliseconds. */
  readonly issued: number
}

/** Our cookies of a request by name; they have been taken out of it. */
const jarSlot = flowSlot<ReadonlyMap<string, string>>('sticky.cookies')

/**
 * Cookies by which clients keep their servers. They hold the name of a member of a backend, never an address, sealed under a
 * key of that backend: what was changed, or is of another backend, does not open.
 */
export class StickyCookies {
  readonly #clock: Clock
  #keys: readonly Uint8Array[] = []
  readonly #keysOf = new Map<string, readonly Uint8Array[]>()
  #young = new Map<string, Held>()
  #old: ReadonlyMap<string, Held> = new Map()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** 32 bytes each: the first one seals, all of them open. Every process of a cluster has the same. Before the first call no cookie is set. */
  useKeys(keys: readonly Uint8Array[]): void {
    this.#keys = keys
    this.#keysOf.clear()
  }

  /** Takes our cookies out of a request, so that no upstream sees them. */
  take(flow: Flow): void {
    const { request } = flow
    if (request === undefined || !hasCookie(request.headers.current)) return
    if (!request.headers.values('cookie').some((line) => line.includes(MARK))) return
    const jar = new Map<string, string>()
    removeCookies(request.headers, (name, value) => {
      if (!value.startsWith(MARK)) return false
      if (!jar.has(name)) jar.set(name, value)
      return true
    })
    if (jar.size > 0) flow.set(jarSlot, jar)
  }

  /** The member that the client's cookie names, and whether the cookie is to be renewed; undefined without a good one. */
  held(flow: Flow, owner: string, sticky: Sticky): { readonly member: string; readonly renew: boolean } | undefined {
    const { request } = flow
    if (request === undefined) return undefined
    const { cookie, ttl } = sticky
    // One that is none of ours under our name.
    if (hasCookie(request.headers.current) && request.headers.values('cookie').some((line) => line.includes(cookie)))
      removeCookies(request.headers, (name) => name === cookie)
    const sealed = flow.get(jarSlot)?.get(cookie)
    const held = sealed === undefined ? undefined : this.#open(sealed, owner)
    if (held === undefined || held.owner !== owner) return undefined
    const age = this.#clock.wall() - held.issued
    if (age < -CLOCK_DIFFERENCE || (ttl !== undefined && age >= ttl)) return undefined
    return { member: held.member, renew: ttl !== undefined && age > ttl / 2 }
  }

  /** Adds to an answer the cookies that the client does not have yet. */
  grant({ request }: Flow, sticks: readonly Stick[], headers: HeaderFields): void {
    if (request === undefined) return
    for (const stick of sticks) {
      const [key] = this.#of(stick.owner)
      if (stick.kept || key === undefined) continue
      const sealed = MARK + sealText(key, JSON.stringify([stick.member, this.#clock.wall()]), PURPOSE)
      headers.append('Set-Cookie', line(stick.sticky, sealed, isSecure(request)))
    }
  }

  #open(sealed: string, owner: string): Held | undefined {
    const known = this.#young.get(sealed) ?? this.#old.get(sealed)
    if (known !== undefined) return known
    if (sealed.length > LONGEST) return undefined
    const text = openText(this.#of(owner), sealed.slice(MARK.length), PURPOSE)
    if (text === undefined) return undefined
    const [member, issued] = JSON.parse(text) as readonly [string, number]
    const held = { owner, member, issued }
    if (this.#young.size >= REMEMBERED) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(sealed, held)
    return held
  }

  /** The keys of one backend. */
  #of(owner: string): readonly Uint8Array[] {
    let keys = this.#keysOf.get(owner)
    if (keys === undefined) {
      keys = this.#keys.map((key) => new Uint8Array(hkdfSync('sha256', key, '', `sluice sticky ${owner}`, KEY_BYTES)))
      if (this.#keysOf.size >= REMEMBERED) this.#keysOf.clear()
      this.#keysOf.set(owner, keys)
    }
    return keys
  }
}

/** Value of a Set-Cookie field (RFC 6265 4.1). */
function line({ cookie, ttl, path, sameSite }: Sticky, value: string, secure: boolean): string {
  const age = ttl === undefined ? '' : `; Max-Age=${Math.ceil(ttl / 1_000)}`
  // Browsers take SameSite=None only together with Secure.
  const site = sameSite === 'None' && !secure ? 'Lax' : sameSite
  return `${cookie}=${value}; Path=${path}${age}; HttpOnly; SameSite=${site}${secure ? '; Secure' : ''}`
}

/** Takes the cookies out of the request for which `goes` is true; what stays becomes one field. */
function removeCookies(headers: HeaderFields, goes: (name: string, value: string) => boolean): void {
  const kept: string[] = []
  let removed = false
  for (const one of headers.values('cookie').flatMap((line) => line.split(';'))) {
    const pair = one.trim()
    const equals = pair.indexOf('=')
    if (equals > 0 && goes(pair.slice(0, equals).trim(), pair.slice(equals + 1).trim())) removed = true
    else if (pair !== '') kept.push(pair)
  }
  if (!removed) return
  if (kept.length === 0) headers.delete('cookie')
  else headers.set('Cookie', kept.join('; '))
}
