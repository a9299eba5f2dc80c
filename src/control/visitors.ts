import type { Clock } from '../lib/clock.js'
import { type Json, timestampText } from '../lib/json.js'
import { UserAgents } from '../lib/user-agent.js'
import { httpsEdge, httpsEdgeRoute } from '../resources/edges.js'
import { cloudEndpointPath } from '../resources/endpoints.js'
import { pathOf } from '../resources/present.js'
import { applicationSession, applicationUser } from '../resources/visitors.js'
import type { ResourceRecord } from '../schema/field.js'
import type { Store } from '../store/store.js'
import type { StoredVisit, StoredVisitor } from '../store/visitors.js'
import type { DeclaredRecords } from './declared-records.js'
import type { EndedSessions } from './sessions.js'

/** Place of an address; undefined if it is not known. */
export type PlaceOfAddress = (address: string) => Readonly<Record<string, string | number | null>> | undefined

interface VisitorsParts {
  readonly store: Pick<Store, 'visitors' | 'get'>
  readonly declared: DeclaredRecords
  readonly ended: EndedSessions
  readonly clock: Clock
  readonly baseUrl: () => string
  readonly placeOfAddress: PlaceOfAddress
}

interface Page {
  readonly limit: number
  readonly before?: string | undefined
}

/** Sessions of one user that one statement reads. */
const AT_ONCE = 1_000
/** Time after which no session of a user can be left (ms): the longest that fields of logins permit. */
const LONGEST = 366 * 86_400_000
const PROVIDERS: Readonly<Record<string, string>> = {
  amazon: 'Amazon',
  facebook: 'Facebook',
  github: 'GitHub',
  gitlab: 'GitLab',
  google: 'Google',
  linkedin: 'LinkedIn',
  microsoft: 'Microsoft',
  oidc: 'OpenID Connect',
  saml: 'SAML',
  twitch: 'Twitch'
}

/** Users of logins and their sessions, as the API shows and ends them. */
export class Visitors {
  readonly #parts: VisitorsParts
  readonly #agents = new UserAgents()

  constructor(parts: VisitorsParts) {
    this.#parts = parts
  }

  async users(page: Page): Promise<ResourceRecord[]> {
    return (await this.#parts.store.visitors.visitors(page)).map(toUser)
  }

  async user(id: string): Promise<ResourceRecord | undefined> {
    const found = await this.#parts.store.visitors.visitor(id)
    return found === undefined ? undefined : toUser(found)
  }

  async sessions(page: Page): Promise<ResourceRecord[]> {
    const { store, clock } = this.#parts
    const found = await store.visitors.visits(page, clock.wall())
    return await Promise.all(found.map((one) => this.#session(one)))
  }

  async session(id: string): Promise<ResourceRecord | undefined> {
    const { store, clock } = this.#parts
    const found = await store.visitors.visit(id, clock.wall())
    return found === undefined ? undefined : await this.#session(found)
  }

  /** Ends a session in all threads and processes; returns false if there is none. */
  async endSession(id: string): Promise<boolean> {
    const { store, clock, ended } = this.#parts
    const found = await store.visitors.visit(id, clock.wall())
    if (found === undefined) return false
    ended.end({ id: found.session, begun: found.begun, ends: found.ends })
    await ended.keep()
    return true
  }

  /** Ends all sessions of a user, and forgets the user; returns false if there is none. */
  async endUser(id: string): Promise<boolean> {
    const { store, clock, ended } = this.#parts
    if ((await store.visitors.visitor(id)) === undefined) return false
    const now = clock.wall()
    for (let before: string | undefined; ; ) {
      const found = await store.visitors.visits({ limit: AT_ONCE, before }, now, id)
      for (const { session, begun, ends } of found) ended.end({ id: session, begun, ends })
      // Sessions that were not listed have the same name.
      for (const name of new Set(found.map(({ byUser }) => byUser)))
        ended.end({ id: name, begun: now, ends: now + LONGEST })
      before = found.at(-1)?.id
      if (found.length < AT_ONCE) break
    }
    await ended.keep()
    await store.visitors.remove(id)
    return true
  }

  async #session(visit: StoredVisit): Promise<ResourceRecord> {
    const { baseUrl, placeOfAddress } = this.#parts
    const { id, visitor, url, address, agent, begun, seen, ends, owner } = visit
    const body = {
      public_url: url,
      browser_session: {
        user_agent: this.#agent(agent),
        ip_address: address,
        location: placeOfAddress(address) ?? null
      },
      application_user: { id: visitor, uri: `${baseUrl()}${applicationUser.path}/${visitor}` },
      last_active: timestampText(seen),
      expires_at: timestampText(ends),
      ...(await this.#placeOf(owner))
    }
    return { kind: applicationSession.name, id, createdAt: timestampText(begun), body, secrets: {} }
  }

  /** Returns references to the owner of a login; null for what it is not, or what was deleted. */
  async #placeOf(owner: string): Promise<Readonly<Record<'endpoint' | 'edge' | 'route', Json>>> {
    const { store, declared, baseUrl } = this.#parts
    const none = { endpoint: null, edge: null, route: null }
    const cloud = cloudEndpointPath(owner)
    if (cloud !== undefined) return { ...none, endpoint: { id: owner, uri: `${baseUrl()}${cloud}` } }
    if (!owner.startsWith(`${httpsEdgeRoute.idPrefix}_`)) return none
    const body = declared.find(httpsEdgeRoute.name, owner)?.body ?? (await store.get(httpsEdgeRoute.name, owner))?.body
    const edge = (body as { readonly edge_id?: string } | undefined)?.edge_id
    if (edge === undefined) return none
    const route = pathOf(httpsEdgeRoute, { id: owner, body: { edge_id: edge } })
    return {
      ...none,
      edge: { id: edge, uri: `${baseUrl()}${httpsEdge.path}/${edge}` },
      route: { id: owner, uri: `${baseUrl()}${route}` }
    }
  }

  #agent(raw: string): Readonly<Record<string, string | null>> {
    const { name, version, os, osVersion, isBot, isDesktop, isMobile, isTablet } = this.#agents.parse(raw)
    const kinds = [isBot && 'bot', isMobile && 'mobile', isTablet && 'tablet', isDesktop && 'desktop']
    return {
      raw,
      browser_name: name || null,
      browser_version: version || null,
      device_type: kinds.find((kind) => kind !== false) || null,
      os_name: os || null,
      os_version: osVersion || null
    }
  }
}

function toUser({ id, provider, issuer, user, name, email, created, seen, login }: StoredVisitor): ResourceRecord {
  const body = {
    identity_provider: { name: PROVIDERS[provider] ?? provider, url: issuer },
    provider_user_id: user,
    username: null,
    email: email === '' ? null : email,
    name: name === '' ? null : name,
    last_active: timestampText(seen),
    last_login: timestampText(login)
  }
  return { kind: applicationUser.name, id, createdAt: timestampText(created), body, secrets: {} }
}
