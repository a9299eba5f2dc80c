import t, { type Test } from 'tap'
import { offlineServices } from '../../src/cli/offline-services.js'
import type { Call } from '../../src/control/calls.js'
import { openParts } from '../../src/control/open.js'
import { readAccountDocument } from '../../src/control/transfer/account-document.js'
import { Transfers } from '../../src/control/transfer/transfers.js'
import { actions } from '../../src/policy/actions/registry.js'
import { policyCheck } from '../../src/resources/policy-check.js'
import { resources } from '../../src/resources/registry.js'
import { SnapshotHolder } from '../../src/snapshot/holder.js'
import { KeptState } from '../../src/snapshot/kept-state.js'
import { Snapshot } from '../../src/snapshot/snapshot.js'
import { openStore } from '../../src/store/open-store.js'
import type { Place } from '../../src/store/store.js'
import { ManualClock } from '../helpers/clock.js'
import { idOf } from '../resources/bench.js'
import { Lines, operation } from '../store/opened.js'
import { newSealer, refused } from './transfers.js'

/** A control plane that serves, with the transfers of its account. */
async function serving(t: Test) {
  const [clock, log, services] = [new ManualClock(), new Lines(), offlineServices(actions)]
  const holder = new SnapshotHolder(Snapshot.empty())
  const options = {
    connect: (onRevision: (place: Place) => void) => openStore(':memory:', { log, clock, onRevision }),
    resources,
    seal: newSealer(),
    clock,
    log,
    checkPolicy: policyCheck(services, actions),
    holder,
    compile: { services, actions, keptState: new KeptState() },
    operatorKeys: { accepts: async () => true },
    baseUrl: () => 'https://api.test',
    zone: 'sluice.test',
    regions: ['global']
  }
  const parts = await openParts(options)
  t.teardown(() => parts.store.close())
  const principal = await parts.principals.authenticate('the key of the operator')
  if (principal === undefined) throw new Error('the operator has no way in')
  const call = (): Call => ({ principal, address: '127.0.0.1', operationId: operation() })
  const transfers = new Transfers({ ...options, ...parts, version: '1.2.3' })
  const units = () => [...holder.current().plan.units].map(([key]) => key).sort()
  return { parts, transfers, call, units, principal }
}

const site = (policy: string) => ({
  format: 'sluice-account/1',
  records: {
    ip_policy: [{ id: idOf('ipp'), fields: {} }],
    ip_policy_rule: [{ id: idOf('ipr'), fields: { ip_policy_id: idOf('ipp'), cidr: '192.0.2.0/24', action: 'allow' } }],
    https_edge: [{ id: idOf('edghts'), fields: { hostports: ['shop.example.com:443'] } }],
    https_edge_route: [
      { id: idOf('edghtsrt'), fields: { edge_id: idOf('edghts'), match: '/', traffic_policy: { value: policy } } }
    ]
  }
})
const DENY = JSON.stringify({ on_http_request: [{ actions: [{ type: 'deny', config: {} }] }] })
const MODE = { prune: false, dryRun: false }

t.test('what is imported serves when it is answered, and what is pruned does not', async (t) => {
  const { parts, transfers, call, units } = await serving(t)
  const bare = units()
  const document = readAccountDocument(site(DENY), resources)
  const dry = await transfers.import({ ...MODE, document, dryRun: true }, call())
  t.equal(dry.records.length, 4)
  t.same(units(), bare, 'a dry run changes nothing')
  const revision = await parts.store.revision()
  t.same(await transfers.import({ ...MODE, document }, call()), dry)
  t.ok(units().length > bare.length)
  t.match(units().join(), idOf('edghts'))
  t.equal(await parts.store.revision(), revision + 1)
  t.equal(parts.applied.revision, revision + 1)
  const [entry] = await parts.store.history({ limit: 1 })
  t.match(entry?.detail, { principal: /^usr_/, changes: [{ change: 'created' }, {}, {}, {}] })

  const shown = await transfers.export(undefined, call())
  t.equal(shown.records.https_edge?.[0]?.id, idOf('edghts'))
  const empty = readAccountDocument({ format: 'sluice-account/1' }, resources)
  await transfers.import({ document: empty, prune: true, dryRun: false }, call())
  t.same(units(), bare)
})

t.test('an import that is refused leaves what serves', async (t) => {
  const { parts, transfers, call, units, principal } = await serving(t)
  await transfers.import({ ...MODE, document: readAccountDocument(site(DENY), resources) }, call())
  const [before, revision] = [units(), await parts.store.revision()]
  const broken = readAccountDocument(site('on_http_request: 7'), resources)
  t.match(await refused(transfers.import({ ...MODE, document: broken }, call())), [{ code: /^POLICY_/ }])
  const document = readAccountDocument(site(DENY), resources)
  const member: Call = { ...call(), principal: { ...principal, role: 'member' } }
  await t.rejects(transfers.import({ ...MODE, document }, member), { code: 'ADMIN_REQUIRED' })
  await t.rejects(transfers.export(undefined, member), { code: 'ADMIN_REQUIRED' })
  const locking = structuredClone(site(DENY)) as unknown as { records: Record<string, unknown> }
  const fields = { type: 'api', enforced: true, ip_policy_ids: [idOf('ipp')] }
  locking.records.ip_restriction = [{ id: idOf('ipx'), fields }]
  const lockout = readAccountDocument(locking, resources)
  await t.rejects(transfers.import({ ...MODE, document: lockout }, call()), { code: 'LOCKOUT' })
  t.same(units(), before)
  t.equal(await parts.store.revision(), revision)
  await transfers.import({ ...MODE, document: lockout, force: true }, call())
  t.equal(parts.gates.api.admits(parts.holder.current(), '127.0.0.1'), false, 'and with force it is done')
})
