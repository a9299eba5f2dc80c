import { USER } from '../../control/principals.js'
import { Coalescer } from '../../lib/concurrency.js'
import { agentIngress } from '../../resources/domains.js'
import { botUser, credential } from '../../resources/identities.js'
import type { Place, StoreReader } from '../../store/store.js'
import type { AgentSession } from '../server/agent-session.js'
import { isRefusal } from '../server/authority.js'
import type { Registry } from '../server/registry.js'
import type { CredentialAuthority } from './credential-authority.js'
import type { CredentialGrant } from './credential-grant.js'

export interface CredentialWatchParts {
  readonly reader: StoreReader
  readonly authority: CredentialAuthority
  readonly registry: Registry<CredentialGrant>
  /** Ends every session of a credential. */
  readonly end: (credential: string, why: string) => void
  /** The agent ingresses have changed. */
  readonly ingressesChanged: () => Promise<void>
  readonly log: { warn(fields: object, message: string): void }
}

/** How long after a failure the store is asked again. Milliseconds. */
const AGAIN = 1000
const OWNERS: ReadonlySet<string> = new Set([botUser.name, USER])

/**
 * Follows what is written, here or by another process on the store: sessions whose credential or owner is gone end, and
 * tunnels that their credential allows no more.
 */
export class CredentialWatch {
  readonly #parts: CredentialWatchParts
  #seen: Place
  readonly #following = new Coalescer(() => {
    // Between the question and this run somebody may have been remembered again.
    this.#parts.authority.forget()
    return this.#follow()
  })
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  /** `place`: the last one before the first session. */
  constructor(place: Place, parts: CredentialWatchParts) {
    this.#seen = place
    this.#parts = parts
  }

  /** There may be something new. */
  look(): void {
    this.#parts.authority.forget()
    if (this.#stopped) return
    this.#following.ask()
  }

  /** Waits until what was written before the last `look` is followed, or cannot be for now. */
  async followed(): Promise<void> {
    await this.#following.answered()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#following.settle()
  }

  async #follow(): Promise<void> {
    const { reader, ingressesChanged, log } = this.#parts
    try {
      const { complete, place, changes } = await reader.changesAfter(this.#seen)
      const ids = (kind: (name: string) => boolean) =>
        new Set(changes.filter((one) => kind(one.kind)).map(({ id }) => id))
      const credentials = ids((name) => name === credential.name)
      const owners = ids((name) => OWNERS.has(name))
      const concerned = [...this.#parts.registry.sessions()].filter(
        ({ grant }) => !complete || credentials.has(grant.credential) || owners.has(grant.owner)
      )
      await this.#recheck(concerned)
      if (!complete || ids((name) => name === agentIngress.name).size > 0) await ingressesChanged()
      this.#seen = place
    } catch (error) {
      log.warn({ err: error }, 'what was written cannot be read: agents keep their sessions until it can')
      if (!this.#stopped) this.#timer = setTimeout(() => this.look(), AGAIN).unref()
    }
  }

  async #recheck(sessions: readonly AgentSession<CredentialGrant>[]): Promise<void> {
    const { authority, end } = this.#parts
    const known = new Map<string, Awaited<ReturnType<CredentialAuthority['again']>>>()
    for (const session of sessions) {
      const { grant } = session
      const answer = known.get(grant.credential) ?? (await authority.again(grant))
      known.set(grant.credential, answer)
      if (isRefusal(answer)) end(grant.credential, answer.refused)
      else {
        grant.rules = answer.rules
        this.#endForbidden(session)
      }
    }
  }

  /** The rules may have become stricter. */
  #endForbidden(session: AgentSession<CredentialGrant>): void {
    const { authority, registry } = this.#parts
    const { grant } = session
    for (const tunnel of [...registry.tunnels()]) {
      if (tunnel.session !== session) continue
      const { labels, proto, url } = tunnel
      const at = url.slice(url.indexOf('://') + '://'.length)
      const refusal =
        labels !== undefined
          ? authority.mayBindLabels(grant, labels)
          : proto === 'tcp'
            ? authority.mayBindAddress(grant, at)
            : authority.mayBindDomain(grant, at)
      if (refusal !== undefined) session.endTunnel(tunnel.id, refusal.refused)
    }
  }
}
