import { randomBytes } from 'node:crypto'
import type { Jar } from '../../flow/reserved-paths.js'
import type { Access } from './access.js'
import { CLOCK_DIFFERENCE, type Vault } from './attempt-state.js'
import type { CookieStyle } from './cookies.js'
import type { Identities, Identity } from './identities.js'
import { ProviderFailure } from './provider-fetch.js'
import type { Application } from './providers.js'
import type { GateSettings, Login, SessionEnd, Visit } from './service.js'
import { decodeSession, encodeSession, type Held, hold, type Session } from './session.js'

/** Browsers keep 4,096 bytes of name, value and attributes. */
const PIECE = 3_500
/** More would take too much of what a server accepts as header. */
const MOST_PIECES = 5

/** Longest sealed session that is kept. */
export const LONGEST_SESSION = PIECE * MOST_PIECES

/** The sealed session that the pieces in `jar` make; '' when there is none. What is missing or mixed does not open. */
export function joinPieces(style: CookieStyle, jar: Jar): string {
  const first = jar.get(style.session)
  if (first === undefined) return ''
  const dot = first.indexOf('.')
  if (dot === -1) return first
  const count = Number(first.slice(0, dot))
  if (!(count <= MOST_PIECES)) return ''
  let text = first.slice(dot + 1)
  for (let i = 1; i < count; i++) text += jar.get(`${style.session}.${i}`) ?? ''
  return text
}

/** Set-Cookie values that keep `sealed`, and end pieces of an earlier one. At most `LONGEST_SESSION` characters. */
export function setPieces(style: CookieStyle, sealed: string, jar: Jar, maxAge: number | undefined): string[] {
  if (sealed.length > LONGEST_SESSION) throw new RangeError('the session is too long for cookies')
  const count = Math.ceil(sealed.length / PIECE)
  const lines = count === 1 ? [style.set(style.session, sealed, maxAge)] : []
  for (let i = 0; count > 1 && i < count; i++) {
    const piece = sealed.slice(i * PIECE, (i + 1) * PIECE)
    const [name, value] = i === 0 ? [style.session, `${count}.${piece}`] : [`${style.session}.${i}`, piece]
    lines.push(style.set(name, value, maxAge))
  }
  return [...lines, ...dropPieces(style, jar, Math.max(count, 1))]
}

/** Set-Cookie values that end the pieces in `jar`, from number `from` on. */
function dropPieces(style: CookieStyle, jar: Jar, from = 0): string[] {
  const names = [style.session]
  for (let i = 1; i < MOST_PIECES; i++) names.push(`${style.session}.${i}`)
  return names
    .slice(from)
    .filter((name) => jar.has(name))
    .map((name) => style.drop(name))
}

/** Milliseconds in which a provider that did not answer is left alone; sessions pass meanwhile. */
const REST = 10_000
/** Activity is written down at most this often, in milliseconds. */
const STAMP_EVERY = 1_000

/** A session that is good, and Set-Cookie values that tell the browser about it. */
export interface Found {
  readonly held: Held
  readonly cookies: readonly string[]
}

/** Sessions of one gate: in sealed cookies, and in the cache of the process while they are in use. */
export class Sessions {
  readonly #settings: GateSettings
  readonly #login: Login
  readonly #vault: Vault
  readonly #identities: Identities
  /** What sessions must have been looked up for. */
  readonly #listed: string
  /** The provider is down: it is not asked until then. Monotonic milliseconds. */
  #restUntil = 0
  #down = false

  constructor(settings: GateSettings, login: Login, vault: Vault, identities: Identities, access: Access) {
    const { provider } = settings
    this.#listed = provider.kind === 'api' && provider.memberships !== undefined ? (access.memberships?.mark ?? '') : ''
    this.#settings = settings
    this.#login = login
    this.#vault = vault
    this.#identities = identities
  }

  /** The session of a visit, or why there is none. */
  find(visit: Visit): Found | SessionEnd {
    const { style, jar, application } = visit
    if (jar.size === 0) return 'none'
    const sealed = joinPieces(style, jar)
    const sent = sealed === '' ? undefined : this.#open(sealed)
    if (sent === undefined || sent.session.client !== application.id) return 'none'
    const held = latest(sent)
    if (held.ended || this.#login.ended.has(held.session)) return 'revoked'
    const end = this.#endOf(held, style, jar)
    if (end !== undefined) return end
    return { held, cookies: held === sent ? [] : this.cookiesOf(held, visit) }
  }

  /** Takes note of a request. A Set-Cookie value that tells the browser, when it is time to. */
  touch(held: Held, style: CookieStyle): string | undefined {
    const { inactivity } = this.#settings
    const now = this.#login.clock.wall()
    held.seen = now
    // Either way: a stamp in the future is of a clock that was ahead.
    if (inactivity === 0 || Math.abs(now - held.stamped) < STAMP_EVERY) return undefined
    held.stamped = now
    const stamp = now.toString(36)
    const mark = this.#vault.mark(markedText(held.session, stamp))
    return style.set(style.activity, `${stamp}.${mark}`, Math.ceil(inactivity / 1_000))
  }

  /** Set-Cookie values that keep a session. */
  cookiesOf({ sealed, session }: Held, { style, jar }: Pick<Visit, 'style' | 'jar'>): string[] {
    const { maximum, lasting } = this.#settings
    const left = Math.min(session.ends, session.begun + maximum) - this.#login.clock.wall()
    return setPieces(style, sealed, jar, lasting ? Math.max(1, Math.ceil(left / 1_000)) : undefined)
  }

  /** Ends the session that the browser keeps, here and, after `keep` of the ended ones, everywhere, whichever application it came through; Set-Cookie values that tell it. */
  end(style: CookieStyle, jar: Jar): string[] {
    const sealed = joinPieces(style, jar)
    const sent = sealed === '' ? undefined : this.#open(sealed)
    if (sent !== undefined) {
      latest(sent).ended = true
      this.#login.ended.end(sent.session)
    }
    return this.drop(style, jar)
  }

  /** Set-Cookie values that end what the browser keeps of a session. */
  drop(style: CookieStyle, jar: Jar): string[] {
    return [...dropPieces(style, jar), ...(jar.has(style.activity) ? [style.drop(style.activity)] : [])]
  }

  #open(sealed: string): Held | undefined {
    const { tag } = this.#vault
    const known = this.#login.sessions.get(sealed)
    if (known !== undefined) return known.tag === tag ? known : undefined
    const text = this.#vault.open(sealed, 'session')
    const session = text === undefined ? undefined : decodeSession(text)
    if (session === undefined) return undefined
    const held = hold(tag, session, sealed, 0)
    this.#login.sessions.set(held)
    return held
  }

  #endOf(held: Held, style: CookieStyle, jar: Jar): SessionEnd | undefined {
    const { maximum, inactivity } = this.#settings
    const now = this.#login.clock.wall()
    const { begun, ends } = held.session
    if (begun > now + CLOCK_DIFFERENCE) return 'none'
    if (now >= ends || now - begun >= maximum) return 'maximum'
    if (inactivity === 0 || now - held.seen < inactivity) return undefined
    // Another process may have seen the user since.
    held.seen = Math.max(held.seen, Math.min(now, this.#stampIn(held, style, jar)))
    return now - held.seen < inactivity ? undefined : 'inactivity'
  }

  /** The time that the activity cookie of this very session holds; 0: none. */
  #stampIn({ session }: Held, style: CookieStyle, jar: Jar): number {
    const [stamp = '', mark = ''] = jar.get(style.activity)?.split('.') ?? []
    if (!/^[0-9a-z]{1,11}$/.test(stamp) || !this.#vault.isMarked(markedText(session, stamp), mark)) return 0
    return Number.parseInt(stamp, 36)
  }

  /** Did the provider give no answer when it was last asked? Then requests do not wait for the next one. */
  get down(): boolean {
    return this.#down
  }

  /** Is there something to ask the provider? */
  isDue({ session, restUntil }: Held): boolean {
    const { check } = this.#settings
    const { clock } = this.#login
    const now = clock.wall()
    const due =
      // Another list may hold a membership that was never asked for.
      (this.#listed !== '' && session.listed !== this.#listed) ||
      (check > 0 && (now - session.checked >= check || session.checked > now + CLOCK_DIFFERENCE)) ||
      (session.refreshToken !== '' && session.expiresAt !== 0 && now >= session.expiresAt)
    return due && clock.monotonic() >= Math.max(restUntil, this.#restUntil)
  }

  /**
   * Asks the provider about the user, once for all requests that wait. `ended`: it does not know the user any more. `unknown`: it
   * did not answer.
   */
  check(
    held: Held,
    application: Application,
    report: (failure: ProviderFailure) => void
  ): NonNullable<Held['checking']> {
    held.checking ??= this.#check(held, application, report).finally(() => {
      held.checking = undefined
    })
    return held.checking
  }

  async #check(
    held: Held,
    application: Application,
    report: (failure: ProviderFailure) => void
  ): Promise<Held | 'ended' | 'unknown'> {
    try {
      const identity = await this.#identities.recheck(application, held.session)
      this.#down = false
      // The user has logged out meanwhile.
      if (held.ended || this.#login.ended.has(held.session)) return 'ended'
      const facts = this.#facts(identity)
      const { checked } = identity.current ? facts : held.session
      const renewed = this.#keep({ ...held.session, ...facts, checked }, held)
      if (!identity.current) renewed.restUntil = this.#login.clock.monotonic() + REST
      return renewed
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      this.#down = error.trouble === 'unavailable'
      if (error.trouble === 'refused') {
        held.ended = true
        return 'ended'
      }
      report(error)
      const now = this.#login.clock.monotonic()
      held.restUntil = now + REST
      if (this.#down) this.#restUntil = now + REST
      return 'unknown'
    }
  }

  /** A new session. Rejects with a ProviderFailure when it does not fit into cookies. */
  create(identity: Identity, client: string): Held {
    const id = randomBytes(16).toString('base64url')
    const begun = this.#login.clock.wall()
    return this.#keep({ id, client, begun, ends: begun + this.#settings.maximum, ...this.#facts(identity) }, undefined)
  }

  #facts({
    profile,
    teams,
    organizations,
    listed,
    tokens
  }: Identity): Omit<Session, 'id' | 'client' | 'begun' | 'ends'> {
    return { profile, teams, organizations, listed, ...tokens, checked: this.#login.clock.wall() }
  }

  #keep(session: Session, before: Held | undefined): Held {
    const [kept, sealed] = this.#seal(session)
    const held = hold(this.#vault.tag, kept, sealed, this.#login.clock.wall())
    if (before !== undefined) before.successor = held
    this.#login.sessions.set(held)
    return held
  }

  /** Without the identity token when the session is too long with it: no check needs it. */
  #seal(session: Session): readonly [Session, string] {
    for (const fitting of [session, { ...session, identityToken: '' }]) {
      const sealed = this.#vault.seal(encodeSession(fitting), 'session')
      if (sealed.length <= LONGEST_SESSION) return [fitting, sealed]
    }
    throw new ProviderFailure('garbage', 'the tokens of the provider are too long for cookies')
  }
}

/** Requests that were under way with the cookies of before lead to the session as it is now. */
function latest(sent: Held): Held {
  let held = sent
  while (held.successor !== undefined) held = held.successor
  if (held !== sent) sent.successor = held
  return held
}

function markedText({ id }: Session, stamp: string): string {
  return `${id} ${stamp}`
}
