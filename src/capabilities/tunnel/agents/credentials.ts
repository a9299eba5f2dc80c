import { timingSafeEqual } from 'node:crypto'
import { principalOf, USER } from '../../../control/access.js'
import type { SecretLabels } from '../../../control/vault-reach.js'
import { Coalescer } from '../../../lib/concurrency.js'
import { hashOf } from '../../../lib/seal.js'
import { agentIngress } from '../../../resources/domains.js'
import { botUser, credential } from '../../../resources/identities.js'
import type { RecordOf } from '../../../resources/resource.js'
import { isUsableBy } from '../../../resources/vaults.js'
import type { StoredRecord } from '../../../store/records.js'
import type { Place, StoreReader } from '../../../store/store.js'
import {
  type BindDenied,
  BindRules,
  type CredentialGrant,
  isBindDenied,
  type Labels,
  type TunnelAuthority
} from '../server/authority.js'
import type { RegisteredSession, Registry } from '../server/registry.js'

type Stored = RecordOf<typeof credential>['body']

const CREDENTIAL_SPACE = 'credential_token'
const KEY_SPACE = 'api_key_token'
/** Maximum number of reads of one token while writes may invalidate them. */
const MOST_READS = 10

const UNKNOWN: BindDenied = {
  refused:
    'the token is not that of a tunnel credential here; POST /credentials of the management API makes one and shows its token'
}
const OWNER_INACTIVE: BindDenied = { refused: 'the owner of this credential is not active' }

/** Decides which agents may connect, and their permitted bindings, by the records of credentials and their owners. */
export class CredentialAuthority implements TunnelAuthority<CredentialGrant> {
  readonly #reader: StoreReader
  #secretLabels: readonly SecretLabels[] = []
  /** Incremented by changes that may invalidate a grant read before. */
  #generation = 0

  constructor(reader: StoreReader) {
    this.#reader = reader
  }

  /** Invalidates pending reads. */
  forget(): void {
    this.#generation++
  }

  /** Rejects when the store cannot be read. */
  async authenticate(token: string): Promise<CredentialGrant | BindDenied> {
    for (let reads = 0; reads < MOST_READS; reads++) {
      const generation = this.#generation
      const answer = await this.#read(token)
      if (generation === this.#generation) return answer
    }
    throw new Error('the records change faster than a credential can be read')
  }

  /** The grant of a credential now; a refusal when a session with this token hash has to end. */
  async again({ credential: id, tokenHash }: CredentialGrant): Promise<CredentialGrant | BindDenied> {
    const stored = await this.#reader.get(credential.name, id)
    if (stored === undefined) return { refused: 'the credential was deleted' }
    if ((stored.body as unknown as Stored).token !== tokenHash)
      return { refused: 'the credential has another token now' }
    return await this.#grant(stored, tokenHash)
  }

  mayBindLabels({ rules, owner, administrator }: CredentialGrant, labels: Labels): BindDenied | undefined {
    const shown = () =>
      Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(', ')
    if (!rules.allowsLabels(labels)) return { refused: `the credential does not allow the labels ${shown()}` }
    if (administrator) return undefined
    const secret = this.#secretLabels.find(
      (group) =>
        Object.entries(group.labels).every(([key, value]) => labels[key] === value) &&
        !isUsableBy(group.usableBy, owner)
    )
    if (secret === undefined) return undefined
    const whose = secret.vault === undefined ? 'of vaults' : `of the vault "${secret.vault}"`
    return { refused: `the labels ${shown()} get secrets ${whose}, which the owner of the credential may not use` }
  }

  /** Sets the tunnel groups that receive vault secrets. */
  secretsGoTo(groups: readonly SecretLabels[]): void {
    this.#secretLabels = groups
  }

  mayBindDomain({ rules }: CredentialGrant, host: string): BindDenied | undefined {
    return rules.allowsDomain(host) ? undefined : { refused: `the credential does not allow the name ${host}` }
  }

  mayBindAddress({ rules }: CredentialGrant, address: string | undefined): BindDenied | undefined {
    if (rules.allowsAddress(address)) return undefined
    return {
      refused: `the credential does not allow ${address === undefined ? 'any free port' : `the address ${address}`}`
    }
  }

  async #read(token: string): Promise<CredentialGrant | BindDenied> {
    const hash = hashOf(token)
    const keeper = await this.#reader.keeperOf(CREDENTIAL_SPACE, hash)
    const stored = keeper === undefined ? undefined : await this.#reader.get(keeper.kind, keeper.id)
    const known = (stored?.body as unknown as Stored | undefined)?.token ?? undefined
    // The database's index has compared already, and not in constant time: it knows hashes only, which a caller cannot choose.
    if (stored === undefined || known === undefined || !timingSafeEqual(Buffer.from(known), Buffer.from(hash))) {
      return await this.#explain(token, hash)
    }
    return await this.#grant(stored, hash)
  }

  async #grant(stored: StoredRecord, tokenHash: string): Promise<CredentialGrant | BindDenied> {
    const { acl, owner_id: owner } = stored.body as unknown as Stored
    const account = await this.#account(owner)
    if (account === undefined) return OWNER_INACTIVE
    const administrator = (await principalOf(this.#reader, owner)).role === 'administrator'
    return { credential: stored.id, account, owner, administrator, tokenHash, rules: new BindRules(acl) }
  }

  /** Name of an active owner. */
  async #account(owner: string): Promise<string | undefined> {
    const user = await this.#reader.get(USER, owner)
    if (user !== undefined) return (user.body as { readonly role: string }).role
    const bot = await this.#reader.get(botUser.name, owner)
    const { active, name } = (bot?.body ?? { active: false, name: '' }) as unknown as RecordOf<typeof botUser>['body']
    return active ? name : undefined
  }

  /** Explains a rejected token: users paste ids and API keys. The form of an id does not reveal which ids exist. */
  async #explain(token: string, hash: string): Promise<BindDenied> {
    if (new RegExp(`^${credential.idPrefix}_[0-9A-Za-z]{27}$`).test(token)) {
      return { refused: 'this is the id of a credential, not its token, which was shown once when it was made' }
    }
    const key = await this.#reader.keeperOf(KEY_SPACE, hash)
    return key === undefined
      ? UNKNOWN
      : { refused: 'this is a key of the management API; agents need the token of a credential' }
  }
}

interface CredentialWatchParts {
  readonly reader: StoreReader
  readonly authority: CredentialAuthority
  readonly registry: Registry<CredentialGrant>
  /** Ends every session of a credential. */
  readonly end: (credential: string, why: string) => void
  /** The agent ingresses have changed. */
  readonly ingressesChanged: () => Promise<void>
  readonly log: { warn(fields: object, message: string): void }
}

/** Pause after a store failure (ms). */
const AGAIN = 1000
const OWNERS: ReadonlySet<string> = new Set([botUser.name, USER])
const FOLLOWED = [credential.name, agentIngress.name, ...OWNERS]

/**
 * Follows changes of the store, by any process: ends sessions whose credential or owner is deleted, and tunnels that their
 * credential no longer allows.
 */
export class CredentialWatch {
  readonly #parts: CredentialWatchParts
  #seen: Place
  readonly #following = new Coalescer(() => {
    // Between the question and this run an agent may have been remembered again.
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

  /** Waits until changes before the last `look` are applied, or cannot be for now. */
  async followed(): Promise<void> {
    await this.#following.answered()
  }

  /** Sets the tunnel groups that receive vault secrets: tunnels whose owners may not use them are ended. */
  secretsGoTo(groups: readonly SecretLabels[]): void {
    const { authority, registry } = this.#parts
    authority.secretsGoTo(groups)
    if (groups.length > 0) for (const session of [...registry.sessions()]) this.#endForbidden(session)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#following.settle()
  }

  async #follow(): Promise<void> {
    const { reader, ingressesChanged, log } = this.#parts
    try {
      const { complete, place, changes } = await reader.changesAfter(this.#seen, { kinds: FOLLOWED })
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

  async #recheck(sessions: readonly RegisteredSession<CredentialGrant>[]): Promise<void> {
    const { authority, end } = this.#parts
    const known = new Map<string, Awaited<ReturnType<CredentialAuthority['again']>>>()
    for (const session of sessions) {
      const { grant } = session
      const answer = known.get(grant.credential) ?? (await authority.again(grant))
      known.set(grant.credential, answer)
      if (isBindDenied(answer)) end(grant.credential, answer.refused)
      else {
        grant.rules = answer.rules
        this.#endForbidden(session)
      }
    }
  }

  /** The rules may have become stricter. */
  #endForbidden(session: RegisteredSession<CredentialGrant>): void {
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
