import { hkdfSync } from 'node:crypto'
import { type Flow, flowSlot } from '../flow/flow.js'
import type { HeaderFields } from '../flow/headers.js'
import { hasCookie, isSecure } from '../flow/reserved-paths.js'
import type { Clock } from '../lib/clock.js'
import { openText, sealText } from '../lib/sealed-text.js'
import type { Sticky } from '../runtime/plan.js'

/** Prefix of the value of Sluice's cookies, which are removed before any upstream. */
const MARK = 'slb1.'
/** Purpose of the derived keys. */
const PURPOSE = 'sticky'
/** Length of a key (bytes). */
const KEY_BYTES = 32
/** Maximum length of a value from Sluice. */
const LONGEST = 512
/** Tolerated clock difference between processes of a cluster (ms). */
const CLOCK_DIFFERENCE = 60_000
/** Opened cookies cached per generation; two generations are kept. */
const REMEMBERED = 4_096

/** Chosen member of one backend for the client's cookie. */
export interface Stick {
  /** Key of the backend's unit. */
  readonly owner: string
  readonly sticky: Sticky
  /** Name of the chosen member. */
  readonly member: string
  /** True if the client's cookie has this value and needs no renewal. */
  readonly kept: boolean
}

/** Content of a cookie. */
interface Held {
  readonly owner: string
  readonly member: string
  /** Wall clock, milliseconds. */
  readonly issued: number
}

/** Sluice's cookies of a request by name, removed from the request. */
const jarSlot = flowSlot<ReadonlyMap<string, string>>('sticky.cookies')

/**
 * Sticky-session cookies. They contain the name of a backend member, never an address, sealed under a key of that backend: modified
 * cookies, or those of another backend, do not open.
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

  /**
   * Sets the keys of 32 bytes: the first one seals, all of them open. All processes of a cluster have the same. Before the first call no
   * cookie is set.
   */
  useKeys(keys: readonly Uint8Array[]): void {
    this.#keys = keys
    this.#keysOf.clear()
  }

  /** Removes Sluice's cookies from a request. */
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

  /** Returns the member of the client's cookie, and whether it needs renewal; undefined without a valid cookie. */
  held(flow: Flow, owner: string, sticky: Sticky): { readonly member: string; readonly renew: boolean } | undefined {
    const { request } = flow
    if (request === undefined) return undefined
    const { cookie, ttl } = sticky
    // A cookie with our name that is not ours.
    if (hasCookie(request.headers.current) && request.headers.values('cookie').some((line) => line.includes(cookie)))
      removeCookies(request.headers, (name) => name === cookie)
    const sealed = flow.get(jarSlot)?.get(cookie)
    const held = sealed === undefined ? undefined : this.#open(sealed, owner)
    if (held === undefined || held.owner !== owner) return undefined
    const age = this.#clock.wall() - held.issued
    if (age < -CLOCK_DIFFERENCE || (ttl !== undefined && age >= ttl)) return undefined
    return { member: held.member, renew: ttl !== undefined && age > ttl / 2 }
  }

  /** Adds the missing cookies to a response. */
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

  /** Returns the keys of one backend. */
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

/** Returns the Set-Cookie value (RFC 6265 4.1). */
function line({ cookie, ttl, path, sameSite }: Sticky, value: string, secure: boolean): string {
  const age = ttl === undefined ? '' : `; Max-Age=${Math.ceil(ttl / 1_000)}`
  // Browsers accept SameSite=None only with Secure.
  const site = sameSite === 'None' && !secure ? 'Lax' : sameSite
  return `${cookie}=${value}; Path=${path}${age}; HttpOnly; SameSite=${site}${secure ? '; Secure' : ''}`
}

/** Removes the cookies for which `goes` returns true; joins the rest to one field. */
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
