import { randomBytes } from 'node:crypto'
import type { Jar } from '../../flow/reserved-paths.js'
import type { Access } from './access.js'
import { CLOCK_DIFFERENCE, type Vault } from './attempt-state.js'
import { endNames } from './back-channel.js'
import type { CookieStyle } from './cookies.js'
import type { Identity, IdentitySource } from './identities.js'
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
import { REPORT_EVERY } from './visitors.js'

/** Length of one cookie piece; browsers store 4,096 bytes of name, value and attributes. */
const PIECE = 3_500
/** Maximum number of pieces; more would use too much of a server's header limit. */
const MOST_PIECES = 5

/** Maximum length of a sealed session in cookies; longer ones are stored. */
export const LONGEST_SESSION = PIECE * MOST_PIECES

/** Joins the pieces in `jar` to the sealed session; '' for none. Incomplete or mixed pieces do not open. */
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

/**
 * Returns the Set-Cookie values for `sealed`, with deletion of extra pieces. At most `LONGEST_SESSION` characters, otherwise a RangeError
 * is thrown.
 */
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

/** Returns Set-Cookie values that delete the pieces in `jar` from number `from`. */
function dropPieces(style: CookieStyle, jar: Jar, from = 0): string[] {
  const names = [style.session]
  for (let i = 1; i < MOST_PIECES; i++) names.push(`${style.session}.${i}`)
  return names
    .slice(from)
    .filter((name) => jar.has(name))
    .map((name) => style.drop(name))
}

/** Maximum number of other holders' generations that one request follows: the one found may have expired already. */
const MOST_FOLLOWED = 3
/** Delay before an unresponsive provider is contacted again (ms); sessions are allowed meanwhile. */
const REST = 10_000
/** Minimum interval between activity cookies (ms). */
const STAMP_EVERY = 1_000

/** Valid session with Set-Cookie values for the browser. */
export interface Found {
  readonly held: Held
  readonly cookies: readonly string[]
}

/** Sessions of one gate in sealed cookies, and in the process cache while they are in use. */
export class Sessions {
  readonly #settings: GateSettings
  readonly #login: Login
  readonly #vault: Vault
  readonly #identities: IdentitySource
  /** Lists for which memberships must have been looked up. */
  readonly #listed: string
  /** The provider is down and not contacted before this time. Monotonic milliseconds. */
  #restUntil = 0
  #down = false

  constructor(settings: GateSettings, login: Login, vault: Vault, identities: IdentitySource, access: Access) {
    const { provider } = settings
    this.#listed = provider.kind === 'api' && provider.memberships !== undefined ? (access.memberships?.mark ?? '') : ''
    this.#settings = settings
    this.#login = login
    this.#vault = vault
    this.#identities = identities
  }

  /** Returns the session of a visit, or why there is none. A promise if the store is needed; it rejects with a ProviderFailure. */
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

  /** Records a request. Returns a Set-Cookie value if the activity cookie is due. */
  touch(held: Held, style: CookieStyle): string | undefined {
    const { inactivity } = this.#settings
    const now = this.#login.clock.wall()
    held.seen = now
    if (now - held.reported >= REPORT_EVERY) {
      held.reported = now
      this.#login.visitors.active(held.session.id, now)
    }
    // In both directions: a future stamp is from a clock that was ahead.
    if (inactivity === 0 || Math.abs(now - held.stamped) < STAMP_EVERY) return undefined
    held.stamped = now
    const stamp = now.toString(36)
    const mark = this.#vault.mark(markedText(held.session, stamp))
    return style.set(style.activity, `${stamp}.${mark}`, Math.ceil(inactivity / 1_000))
  }

  /** Returns Set-Cookie values with a session. */
  cookiesOf({ sealed, session }: Held, { style, jar }: Pick<Visit, 'style' | 'jar'>): string[] {
    const { maximum, lasting } = this.#settings
    const left = Math.min(session.ends, session.begun + maximum) - this.#login.clock.wall()
    return setPieces(style, sealed, jar, lasting ? Math.max(1, Math.ceil(left / 1_000)) : undefined)
  }

  /**
   * Ends the browser's session here and, after `keep` of the ended sessions, everywhere, whatever its application; returns Set-Cookie
   * values that delete it.
   */
  end(style: CookieStyle, jar: Jar): string[] {
    const sealed = joinPieces(style, jar)
    const sent = sealed === '' ? undefined : this.#open(sealed)
    if (sent !== undefined && 'session' in sent) latest(sent).ended = true
    if (sent !== undefined) this.#login.ended.end('session' in sent ? sent.session : sent)
    return this.drop(style, jar)
  }

  /** Returns Set-Cookie values that delete a session. */
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

  /** Loads the session of a reference cookie; undefined if the store has none. */
  async #read(reference: SessionReference, sealed: string): Promise<Held | undefined> {
    const kept = await this.#login.keeper.read(reference.id)
    const session = kept === undefined ? undefined : this.#openKept(kept, reference)
    if (session === undefined) return undefined
    const known = this.#login.sessions.get(sealed)
    if (known !== undefined) return known
    const held = hold(this.#place(session), session, sealed, 0)
    this.#login.sessions.set(held)
    // Sends the missed generation to the browser.
    if (session.number !== reference.number) this.#hold(session, held)
    return held
  }

  #place({ client, profile, sid }: Session): Pick<Held, 'tag' | 'endNames'> {
    const { issuer } = this.#settings.provider
    const { tag } = this.#vault
    return { tag, endNames: endNames({ issuer, client, sub: profile.id, sid }) }
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
    // Another process may have seen the user more recently.
    held.seen = Math.max(held.seen, Math.min(now, this.#stampIn(held, style, jar)))
    return now - held.seen < inactivity ? undefined : 'inactivity'
  }

  /** Returns the time in this session's activity cookie; 0: none. */
  #stampIn({ session }: Held, style: CookieStyle, jar: Jar): number {
    const [stamp = '', mark = ''] = jar.get(style.activity)?.split('.') ?? []
    if (!/^[0-9a-z]{1,11}$/.test(stamp) || !this.#vault.isMarked(markedText(session, stamp), mark)) return 0
    return Number.parseInt(stamp, 36)
  }

  /** True if the provider did not respond to the last request; then requests do not wait for the next one. */
  get down(): boolean {
    return this.#down
  }

  /** Returns true if a check with the provider is due. */
  isDue({ session, restUntil }: Held): boolean {
    const { check } = this.#settings
    const { clock } = this.#login
    const now = clock.wall()
    const due =
      // Another list may contain a membership that was never looked up.
      (this.#listed !== '' && session.listed !== this.#listed) ||
      (check > 0 && (now - session.checked >= check || session.checked > now + CLOCK_DIFFERENCE)) ||
      (session.refreshToken !== '' && session.expiresAt !== 0 && now >= session.expiresAt)
    return due && clock.monotonic() >= Math.max(restUntil, this.#restUntil)
  }

  /** Checks the user with the provider, once for all waiting requests. `ended`: unknown user. `unknown`: no response. */
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

  /** Contacts the provider. `followed`: another holder has renewed the session. Undefined: that holder takes too long. */
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

  /** Creates the next generation under the lease of `holder`. Its tokens are stored before any other request. */
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

  /** Creates a session; store it with `keep`. */
  create(identity: Identity, client: string): Held {
    const id = randomBytes(16).toString('base64url')
    const begun = this.#login.clock.wall()
    const ends = Math.min(begun + this.#settings.maximum, identity.ends ?? Number.POSITIVE_INFINITY)
    const session = { id, client, begun, ends, number: 0, ...this.#facts(identity) }
    return this.#hold(session, undefined)
  }

  /** Stores a new session that does not fit into cookies. Rejects with a ProviderFailure if that is impossible. */
  async keep({ session }: Held): Promise<void> {
    const kept = this.#kept(session)
    if (kept.needed) await this.#login.keeper.create(kept)
  }

  #facts({
    profile,
    teams,
    organizations,
    listed,
    tokens,
    attributes = {}
  }: Identity): Omit<Session, 'id' | 'client' | 'begun' | 'ends' | 'number'> {
    return { profile, teams, organizations, listed, attributes, ...tokens, checked: this.#login.clock.wall() }
  }

  #hold(session: Session, before: Held | undefined): Held {
    const whole = this.#vault.seal(encodeSession(session), 'session')
    const sealed = fits(whole) ? whole : this.#vault.seal(encodeReference(session), 'session')
    const held = hold(this.#place(session), session, sealed, this.#login.clock.wall())
    if (before !== undefined) before.successor = held
    this.#login.sessions.set(held)
    return held
  }

  /** Returns the stored form, which does not open as a cookie: read access to the store gives no session. */
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

/** Returns the current session of a request with older cookies. */
function latest(sent: Held): Held {
  let held = sent
  while (held.successor !== undefined) held = held.successor
  if (held !== sent) sent.successor = held
  return held
}

function markedText({ id }: Session, stamp: string): string {
  return `${id} ${stamp}`
}
