import type { AddressInfo } from 'node:net'
import { createApi } from '../../src/api/server.js'
import { policyCheck } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { LatestRevision } from '../../src/control/configuration.js'
import { type ControlPlane, openControl } from '../../src/control/control-plane.js'
import { ApiKeys } from '../../src/control/operator-keys.js'
import { EndedSessions } from '../../src/features/login/ended-sessions.js'
import { actions } from '../../src/features/registry.js'
import { systemClock } from '../../src/lib/clock.js'
import { Sealer, sealKey } from '../../src/lib/seal.js'
import { resources } from '../../src/resources/registry.js'
import { PersistentState } from '../../src/runtime/persistent-state.js'
import { Snapshot, SnapshotHolder } from '../../src/runtime/snapshot.js'
import { openStore } from '../../src/store/open-store.js'
import type { Store } from '../../src/store/store.js'

export const KEY = 'a-key-for-the-benchmark'

const QUIET = { info: () => undefined, warn: () => undefined }
/** No secret is sealed here. */
const SEAL = new Sealer(sealKey(Buffer.alloc(32, 'k')))

export interface BenchAccount {
  readonly control: ControlPlane
  readonly api: AddressInfo | { readonly port: number }
  close(): Promise<void>
}

/** API and control plane over the store at `address`, without any traffic. `wrap` may stand between plane and store. */
export async function openAccount(
  address: string,
  wrap: (store: Store) => Store = (store) => store
): Promise<BenchAccount> {
  const clock = systemClock
  const services = policyServices(offline(actions))
  const keys = new ApiKeys([KEY], undefined)
  const baseUrl = () => 'http://api.test'
  const latest = new LatestRevision(clock)
  const control = await openControl({
    store: wrap(await openStore(address, { log: QUIET, clock, onRevision: latest.report })),
    latest,
    resources,
    seal: SEAL,
    clock,
    log: QUIET,
    checkPolicy: policyCheck(services, actions),
    holder: new SnapshotHolder(Snapshot.empty()),
    compile: { services, actions, persistentState: new PersistentState() },
    operatorKeys: keys,
    endedSessions: new EndedSessions(clock),
    baseUrl,
    zone: 'sluice.localhost',
    regions: ['global']
  })
  const server = createApi({
    keys,
    hosts: [],
    clock,
    readiness: () => 'ready',
    fault: (error) => console.error(error),
    account: { control, resources, baseUrl, version: '0.0.0' }
  })
  const api = await server.listen({ host: '127.0.0.1', port: 0 })
  const close = async () => {
    await server.close()
    await control.close()
  }
  return { control, api, close }
}
