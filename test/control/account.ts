import { randomBytes } from 'node:crypto'
import { policyCheck } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { writeGuards } from '../../src/capabilities/guard/write-guards.js'
import { policyTesting } from '../../src/capabilities/policy-tests/stored-tests.js'
import type { Call, Principal, RecordEvent, WriteMode, Written } from '../../src/control/calls.js'
import { LatestRevision } from '../../src/control/configuration.js'
import { type ControlPlane, openControl } from '../../src/control/control-plane.js'
import type { ControlOptions } from '../../src/control/parts.js'
import { EndedSessions } from '../../src/features/login/ended-sessions.js'
import { actions } from '../../src/features/registry.js'
import { Sealer, sealKey } from '../../src/lib/seal.js'
import { resources } from '../../src/resources/registry.js'
import type { Resource } from '../../src/resources/resource.js'
import { PersistentState } from '../../src/runtime/persistent-state.js'
import { Snapshot, SnapshotHolder } from '../../src/runtime/snapshot.js'
import { openStore } from '../../src/store/open-store.js'
import type { Store } from '../../src/store/store.js'
import { ManualClock } from '../helpers/clock.js'
import { Lines, operation, type Test } from '../store/opened.js'

export const OPERATOR_KEY = 'a-key-of-the-operator-0123456789'
export const BASE = 'https://api.test'
const services = policyServices(offline(actions))

export type Answer = Readonly<Record<string, unknown>>

/** A control plane over a real store, with short words for what tests do with it. */
export class Account {
  readonly control: ControlPlane
  readonly store: Store
  readonly holder: SnapshotHolder
  readonly events: RecordEvent[]
  readonly clock: ManualClock
  readonly log: Lines
  readonly admin: Principal
  address: string | undefined = '127.0.0.1'

  constructor(parts: Omit<AccountParts, never>) {
    this.control = parts.control
    this.store = parts.store
    this.holder = parts.holder
    this.events = parts.events
    this.clock = parts.clock
    this.log = parts.log
    this.admin = parts.admin
  }

  call(principal: Principal = this.admin): Call {
    return { principal, address: this.address, operationId: operation() }
  }

  async create(kind: string, body: unknown, path: Record<string, string> = {}, by?: Principal): Promise<Made> {
    const written = await this.control.records.create(resource(kind), { path, body }, this.call(by))
    return { ...written, id: written.record.id, answer: written.body as Answer }
  }

  async update(
    kind: string,
    path: Record<string, string>,
    body: unknown,
    mode: WriteMode = {},
    by?: Principal
  ): Promise<Made> {
    const written = await this.control.records.update(resource(kind), { path, body, ...mode }, this.call(by))
    return { ...written, id: written.record.id, answer: written.body as Answer }
  }

  async get(kind: string, path: Record<string, string>): Promise<Answer> {
    return (await this.control.records.get(resource(kind), { path }, this.call())).body as Answer
  }

  async remove(kind: string, path: Record<string, string>, mode: WriteMode = {}, by?: Principal) {
    return await this.control.records.remove(resource(kind), { path, ...mode }, this.call(by))
  }

  async put(kind: string, path: Record<string, string>, module: string, body: unknown, mode: WriteMode = {}) {
    return await this.control.records.replaceModule(resource(kind), { path, module, body, ...mode }, this.call())
  }

  /** An edge for the host with a route for every path. */
  async site(host: string, policy?: string): Promise<{ edge: string; route: string }> {
    const edge = await this.create('https_edge', { hostports: [`${host}:443`] })
    const traffic_policy = policy === undefined ? {} : { traffic_policy: { value: policy } }
    const route = await this.create('https_edge_route', { match: '/', ...traffic_policy }, { edge_id: edge.id })
    return { edge: edge.id, route: route.id }
  }
}

export interface Made extends Written {
  readonly id: string
  readonly answer: Answer
}

interface AccountParts {
  readonly control: ControlPlane
  readonly store: Store
  readonly holder: SnapshotHolder
  readonly events: RecordEvent[]
  readonly clock: ManualClock
  readonly log: Lines
  readonly admin: Principal
}

export function resource(kind: string): Resource {
  const found = resources.find(({ name }) => name === kind)
  if (found === undefined) throw new RangeError(`no resource ${kind}`)
  return found
}

export const DENY = JSON.stringify({ on_http_request: [{ actions: [{ type: 'deny', config: {} }] }] })

export interface Setup extends Partial<ControlOptions> {
  readonly at?: string
  /** Puts something between the control plane and its store. */
  readonly wrap?: (store: Store) => Store
}

/** One key for all of them, so that two processes can share a store. */
const SEAL_KEY = sealKey(randomBytes(32))

/** Opens a control plane that closes with the test. */
export async function open(t: Test, { at = ':memory:', wrap, ...options }: Setup = {}): Promise<Account> {
  const clock = (options.clock as ManualClock | undefined) ?? new ManualClock()
  const log = new Lines()
  const holder = new SnapshotHolder(Snapshot.empty())
  const events: RecordEvent[] = []
  const latest = new LatestRevision(clock)
  const opened = await openStore(at, { log, clock, onRevision: latest.report })
  const store = wrap === undefined ? opened : wrap(opened)
  const control = await openControl({
    store,
    latest,
    resources,
    seal: new Sealer(SEAL_KEY),
    clock,
    log,
    checkPolicy: policyCheck(services, actions),
    testPolicy: policyTesting(),
    guards: writeGuards({ clock, log, traffic: undefined, changedDecisions: undefined, ended: () => undefined }),
    holder,
    compile: { services, actions, persistentState: new PersistentState() },
    operatorKeys: { accepts: async (key) => key === OPERATOR_KEY },
    endedSessions: new EndedSessions(clock),
    baseUrl: () => BASE,
    zone: 'sluice.test',
    regions: ['global'],
    published: (event) => events.push(event),
    ...options
  })
  t.teardown(() => control.close())
  const admin = await control.access.authenticate(OPERATOR_KEY)
  if (admin === undefined) throw new Error('the operator has no way in')
  return new Account({ control, store, holder, events, clock, log, admin })
}
