import type { Test } from 'tap'
import { type BoundGroup, bindRoutes } from '../../src/api/define-route.js'
import type { ApiOptions } from '../../src/api/server.js'
import { type Capability, describing, pagesOf } from '../../src/app/capability.js'
import { policyCheck } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { writeGuards } from '../../src/capabilities/guard/write-guards.js'
import { policyTesting } from '../../src/capabilities/policy-tests/stored-tests.js'
import { serverCapabilities } from '../../src/capabilities/registry.js'
import type { LiveSources } from '../../src/control/cluster/live-sources.js'
import { LatestRevision } from '../../src/control/configuration.js'
import { openControl } from '../../src/control/control-plane.js'
import { ApiKeys } from '../../src/control/operator-keys.js'
import { EndedSessions } from '../../src/features/login/ended-sessions.js'
import { limitRules } from '../../src/features/rate-limit/leases/cluster-limits.js'
import { actions } from '../../src/features/registry.js'
import { systemClock } from '../../src/lib/clock.js'
import { newSealKey, parseSealKey, Sealer } from '../../src/lib/seal.js'
import { provide } from '../../src/policy/services.js'
import { resources } from '../../src/resources/registry.js'
import { PersistentState } from '../../src/runtime/persistent-state.js'
import { Snapshot, SnapshotHolder } from '../../src/runtime/snapshot.js'
import { openStore } from '../../src/store/open-store.js'
import { type Answer, type Ask, KEY, listen } from './asking.js'
import { EMPTY_DAY, EMPTY_MAP, EMPTY_TRAFFIC } from './traffic-double.js'

export const BASE = 'http://api.example.com'

interface AccountOptions extends Partial<ApiOptions> {
  /** Of the store; in memory unless given. */
  readonly address?: string
  /** URLs in answers lead to the API itself instead of to a name that is the same in every test. */
  readonly ownBase?: boolean
  readonly reportEvery?: number
  /** What lives beside the records. */
  readonly sources?: LiveSources
  readonly reasons?: NonNullable<ApiOptions['account']>['reasons'] & object
  readonly dashboard?: boolean
  /** There is a stream of traffic, which never ends. */
  readonly traffic?: boolean
}

/** The API over a real control plane. */
export async function openAccount(t: Test, options: AccountOptions = {}) {
  const {
    address = ':memory:',
    ownBase = false,
    reportEvery,
    sources,
    clock = systemClock,
    reasons,
    dashboard,
    traffic = false,
    ...api
  } = options
  let base = BASE
  const baseUrl = () => base
  const logged: { readonly fields: object; readonly message: string }[] = []
  const note = (fields: object, message: string) => void logged.push({ fields, message })
  const log = { info: note, warn: note }
  const services = policyServices(offline(actions), [provide(limitRules, { scope: 'server', short_windows: false })])
  const holder = new SnapshotHolder(Snapshot.empty())
  const keys = new ApiKeys([KEY], undefined)
  const latest = new LatestRevision(clock)
  const store = await openStore(address, { log, clock, onRevision: latest.report })
  const endedSessions = new EndedSessions(clock)
  await endedSessions.attach(store.endedSessions)
  const control = await openControl(
    {
      store,
      latest,
      resources,
      seal: new Sealer(parseSealKey(newSealKey())),
      clock,
      log,
      checkPolicy: policyCheck(services, actions),
      testPolicy: policyTesting(),
      guards: writeGuards({ clock, log, traffic: undefined, changedDecisions: undefined, ended: () => undefined }),
      holder,
      compile: { services, actions, persistentState: new PersistentState() },
      operatorKeys: keys,
      endedSessions,
      ...(traffic
        ? {
            trafficNumbers: {
              day: () => EMPTY_DAY,
              history: () => EMPTY_TRAFFIC,
              follow: () => () => undefined,
              map: () => EMPTY_MAP
            }
          }
        : {}),
      baseUrl,
      zone: 'sluice.localhost',
      regions: ['global'],
      ...(reportEvery === undefined ? {} : { reportEvery })
    },
    sources
  )
  const capabilities = await serverCapabilities()
  const listening = await listen(t, {
    clock,
    keys,
    account: {
      control,
      resources,
      groups: unansweredGroups(capabilities),
      pages: pagesOf(capabilities, undefined),
      describesRecord: describing(capabilities),
      baseUrl,
      version: '0.0.0',
      ...(reasons === undefined ? {} : { reasons }),
      ...(dashboard === undefined ? {} : { dashboard })
    },
    ...api
  })
  if (ownBase) base = `http://${listening.host}:${listening.port}`
  t.teardown(() => control.close())
  return { ...listening, control, holder, logged, store }
}

/** The routes of the capabilities, over services that answer nothing: this account has no traffic. */
function unansweredGroups(capabilities: readonly Capability[]): BoundGroup[] {
  const groups = capabilities.flatMap(({ routes }) => routes)
  return groups.map((group) => bindRoutes(group, undefined as never))
}

/** Creates and returns the answer's body; fails loudly, because what follows needs it. */
export async function make(ask: Ask, path: string, body: object = {}): Promise<Answer['json']> {
  const answer = await ask(path, { method: 'POST', body })
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
  return answer.json
}

/** The path behind the base URL, wherever a `uri` names it. */
export function pathIn(uri: string): string {
  return uri.startsWith(BASE) ? uri.slice(BASE.length) : uri
}
