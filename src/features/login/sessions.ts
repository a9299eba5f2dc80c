import { randomBytes } from 'node:crypto'
import type { Jar } from '../../flow/reserved-paths.js'
import type { Access } from './access.js'
import { CLOCK_DIFFERENCE, type Vault } from './attempt-state.js'
import { endNames } from './back-channel.js'
import type { CookieStyle } from './cookies.js'
import type { Identities, Identity } from './identities.js'
import { ProviderFailure } from './provider-fetch.js'
import type { Application } from './providers.js'
import type { GateSettings, Login, SessionEnd, Visit } from './service.js'
import {
  decodeSession,
  encodeReference,
  encodeSession,
  type Held,
  hold,
  type Session,
  type SessionReference
} from './session.js'
import type { KeptSession } from './session-keeper.js'

/** Browsers keep 4,096 bytes of name, value and attributes. */
const PIECE = 3_500
/** More would take too much of what a server accepts as header. */
const MOST_PIECES = 5

/** Longest sealed session that cookies hold; the store keeps longer ones. */
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

/** Generations of other holders that one request follows: the one that it finds may have expired by now. */
const MOST_FOLLOWED = 3
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

  /** The session of a visit, or why there is none. A promise where the store has it; it rejects with a ProviderFailure. */
  find(visit: Visit): Found | SessionEnd | Promise<Found | SessionEnd> {
    const { style, jar } = visit
    if (jar.size === 0) return 'none'
    const sealed = joinPieces(style, jar)
    const sent = sealed === '' ? undefined : this.#open(sealed)
    if (sent === undefined) return 'none'
    if ('session' in sent) return this.#judge(sent, visit)
    if (this.#login.ended.has(sent)) return 'revoked'
    if (this.#login.clock.wall() >= sent.ends) return 'maximum'
    return this.#read(sent, sealed).then((held) => (held === undefined ? 'none' : this.#judge(held, visit)))
  }

  #judge(sent: Held, visit: Visit): Found | SessionEnd {
    const { style, jar, application } = visit
    if (sent.session.client !== application.id) return 'none'
    const held = latest(sent)
    if (held.ended || this.#login.ended.has(held.session, held.endNames)) return 'revoked'
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
    if (sent !== undefined && 'session' in sent) latest(sent).ended = true
    if (sent !== undefined) this.#login.ended.end('session' in sent ? sent.session : sent)
    return this.drop(style, jar)
  }

  /** Set-Cookie values that end what the browser keeps of a session. */
  drop(style: CookieStyle, jar: Jar): string[] {
    return [...dropPieces(style, jar), ...(jar.has(style.activity) ? [style.drop(style.activity)] : [])]
  }

  #open(sealed: string): Held | SessionReference | undefined {
    const { tag } = this.#vault
    const known = this.#login.sessions.get(sealed)
    if (known !== undefined) return known.tag === tag ? known : undefined
    const text = this.#vault.open(sealed, 'session')
    const session = text === undefined ? undefined : decodeSession(text)
    if (session?.profile === undefined) return session
    const held = hold(this.#place(session), session, sealed, 0)
    this.#login.sessions.set(held)
    return held
  }

  /** What the store has of the session that a cookie refers to; undefined: nothing. */
  async #read(reference: SessionReference, sealed: string): Promise<Held | undefined> {
    const kept = await this.#login.keeper.read(reference.id)
    const session = kept === undefined ? undefined : this.#openKept(kept, reference)
    if (session === undefined) return undefined
    const known = this.#login.sessions.get(sealed)
    if (known !== undefined) return known
    const held = hold(this.#place(session), session, sealed, 0)
    this.#login.sessions.set(held)
    // The browser learns of the generation that it missed.
    if (session.number !== reference.number) this.#hold(session, held)
    return held
  }

  #place({ client, profile, sid }: Session): Pick<Held, 'tag' | 'endNames'> {
    const { kind, issuer } = this.#settings.provider
    const { tag } = this.#vault
    return { tag, endNames: kind === 'openid' ? endNames({ issuer, client, sub: profile.id, sid }) : [] }
  }

  #openKept({ sealed }: KeptSession, { id }: Pick<Session, 'id'>): Session | undefined {
    const text = sealed === '' ? undefined : this.#vault.open(sealed, 'kept')
    const session = text === undefined ? undefined : decodeSession(text)
    return session?.profile !== undefined && session.id === id ? session : undefined
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
    held.checking ??= this.#checkOnce(held, application, report).finally(() => {
      held.checking = undefined
    })
    return held.checking
  }

  async #checkOnce(held: Held, ...[application, report]: Checking): Promise<Held | 'ended' | 'unknown'> {
    try {
      let at = held
      for (let followed = 0; ; followed++) {
        const outcome = await this.#ask(at, application)
        if (outcome === 'refused') {
          held.ended = true
          return 'ended'
        }
        // The user has logged out meanwhile.
        if (held.ended || this.#login.ended.has(held.session, held.endNames)) return 'ended'
        if (outcome === undefined) {
          held.restUntil = this.#login.clock.monotonic() + REST
          return 'unknown'
        }
        this.#down = false
        at = outcome.held
        if (!outcome.followed || followed === MOST_FOLLOWED || !this.isDue(at)) return at
      }
    } catch (error) {
      if (!(error instanceof ProviderFailure)) throw error
      this.#down = error.trouble === 'unavailable' || error.trouble === 'unstored'
      if (error.trouble === 'refused' || error.trouble === 'too-large') held.ended = true
      if (error.trouble === 'refused') return 'ended'
      report(error)
      if (error.trouble === 'too-large') throw error
      const now = this.#login.clock.monotonic()
      held.restUntil = now + REST
      if (this.#down) this.#restUntil = now + REST
      return 'unknown'
    }
  }

  /** `followed`: another holder has renewed the session. Undefined: one is at work and takes too long. */
  async #ask(held: Held, application: Application) {
    const { session } = held
    const identity = await this.#identities.recheck(application, session)
    if (identity !== undefined) return { held: this.#hold(this.#renewed(session, identity), held), followed: false }
    const claim = await this.#login.keeper.claim(session.id, session.number, session.ends)
    if (claim === undefined) return undefined
    if (typeof claim === 'string') return { held: await this.#refresh(held, application, claim), followed: false }
    const kept = this.#openKept(claim, session)
    return kept === undefined ? 'refused' : { held: this.#hold(kept, held), followed: true }
  }

  /** Makes the next generation under the lease of `holder`. Its tokens are kept before anything else is asked. */
  async #refresh(held: Held, application: Application, holder: string): Promise<Held> {
    const { keeper } = this.#login
    const { session } = held
    let isSaved = false
    try {
      const tokens = await this.#identities.refresh(application, session)
      const { claims: _, ...kept } = tokens
      const next = { ...session, ...kept, number: session.number + 1 }
      await keeper.save({ ...this.#kept(next), holder, last: false })
      const identity = await this.#identities.renewed(application, next, tokens)
      const whole = this.#renewed(next, identity)
      await keeper.save({ ...this.#kept(whole), holder, last: true })
      isSaved = true
      const renewed = this.#hold(whole, held)
      if (!identity.current) renewed.restUntil = this.#login.clock.monotonic() + REST
      return renewed
    } catch (error) {
      if (error instanceof ProviderFailure && error.trouble === 'refused') {
        isSaved = true
        const { id, ends, number } = session
        await keeper.save({ id, ends, number: number + 1, sealed: '', needed: false, holder, last: true })
      }
      throw error
    } finally {
      if (!isSaved) keeper.release(session.id, holder)
    }
  }

  #renewed(session: Session, identity: Identity): Session {
    const facts = this.#facts(identity)
    return { ...session, ...facts, checked: identity.current ? facts.checked : session.checked }
  }

  /** A new session, which `keep` keeps. */
  create(identity: Identity, client: string): Held {
    const id = randomBytes(16).toString('base64url')
    const begun = this.#login.clock.wall()
    const session = { id, client, begun, ends: begun + this.#settings.maximum, number: 0, ...this.#facts(identity) }
    return this.#hold(session, undefined)
  }

  /** Keeps a new session that cookies do not hold. Rejects with a ProviderFailure when that is not possible. */
  async keep({ session }: Held): Promise<void> {
    const kept = this.#kept(session)
    if (kept.needed) await this.#login.keeper.create(kept)
  }

  #facts({
    profile,
    teams,
    organizations,
    listed,
    tokens
  }: Identity): Omit<Session, 'id' | 'client' | 'begun' | 'ends' | 'number'> {
    return { profile, teams, organizations, listed, ...tokens, checked: this.#login.clock.wall() }
  }

  #hold(session: Session, before: Held | undefined): Held {
    const whole = this.#vault.seal(encodeSession(session), 'session')
    const sealed = fits(whole) ? whole : this.#vault.seal(encodeReference(session), 'session')
    const held = hold(this.#place(session), session, sealed, this.#login.clock.wall())
    if (before !== undefined) before.successor = held
    this.#login.sessions.set(held)
    return held
  }

  /** What the store keeps opens for no cookie: who reads the store has no session. */
  #kept(session: Session) {
    const { id, ends, number } = session
    const sealed = this.#vault.seal(encodeSession(session), 'kept')
    return { id, ends, number, needed: !fits(sealed), sealed }
  }
}

type Checking = [application: Application, report: (failure: ProviderFailure) => void]

function fits(sealed: string): boolean {
  return sealed.length <= LONGEST_SESSION
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
