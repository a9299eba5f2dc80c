import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { policyCheck } from '../../../src/app/policy-check.js'
import { offline, policyServices } from '../../../src/app/services.js'
import { AddressWatch, type AddressWatchParts } from '../../../src/capabilities/certificates/address-watch.js'
import { Certificates, type CertificatesParts } from '../../../src/capabilities/certificates/certificates.js'
import { ChallengeTable } from '../../../src/capabilities/certificates/challenges.js'
import { openDnsListener, Zones } from '../../../src/capabilities/certificates/dns/server.js'
import { policyTesting } from '../../../src/capabilities/policy-tests/stored-tests.js'
import type { Call } from '../../../src/control/calls.js'
import { LatestRevision } from '../../../src/control/configuration.js'
import { type ControlPlane, openControl } from '../../../src/control/control-plane.js'
import { EndedSessions } from '../../../src/features/login/ended-sessions.js'
import { actions } from '../../../src/features/registry.js'
import { createOutbound } from '../../../src/lib/http-client/outbound.js'
import { Sealer, sealKey } from '../../../src/lib/seal.js'
import type { ManagementStatus } from '../../../src/resources/domains.js'
import { readUpdate } from '../../../src/resources/read.js'
import { resources } from '../../../src/resources/registry.js'
import type { Resource } from '../../../src/resources/resource.js'
import { PersistentState } from '../../../src/runtime/persistent-state.js'
import { Snapshot, SnapshotHolder } from '../../../src/runtime/snapshot.js'
import type { ResourceRecord } from '../../../src/schema/field.js'
import { openStore } from '../../../src/store/open-store.js'
import { ManualClock } from '../../helpers/clock.js'
import { Lines, operation } from '../../store/opened.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

const services = policyServices(offline(actions))
const KEY = sealKey(randomBytes(32))
const ZONE = 'sluice.test'
export const LETSENCRYPT = { certificate_management_policy: { authority: 'letsencrypt' } }

export interface ManagedSetup {
  readonly authority?: CertificatesParts['authority']
  /** PEM that the authority's API is checked against. */
  readonly ca?: string
  readonly dns?: boolean
  /** Is there a listener with TLS? */
  readonly tls?: boolean
  /** Address of the store. */
  readonly at?: string
  readonly clock?: ManualClock
  readonly sealedBy?: Sealer
  /** @default no name has an address */
  readonly lookup?: AddressWatchParts['lookup']
}

/** A real store and control plane with managed certificates over it, and a clock that only tests move. */
export class Managed {
  readonly control: ControlPlane['serviceAccount']
  readonly plane: ControlPlane
  readonly certificates: Certificates
  readonly holder: SnapshotHolder
  readonly clock: ManualClock
  readonly log: Lines
  #stopped: Promise<void> | undefined

  private constructor(parts: Pick<Managed, 'plane' | 'control' | 'certificates' | 'holder' | 'clock' | 'log'>) {
    this.plane = parts.plane
    this.control = parts.control
    this.certificates = parts.certificates
    this.holder = parts.holder
    this.clock = parts.clock
    this.log = parts.log
  }

  static async open(t: Test, setup: ManagedSetup = {}): Promise<Managed> {
    const { clock = new ManualClock(Date.now()), authority = 'no authority is asked here', dns = true } = setup
    const log = new Lines()
    const holder = new SnapshotHolder(Snapshot.empty())
    const latest = new LatestRevision(clock)
    const plane = await openControl({
      store: await openStore(setup.at ?? ':memory:', { log, clock, onRevision: latest.report }),
      latest,
      resources,
      seal: setup.sealedBy ?? new Sealer(KEY),
      clock,
      log,
      checkPolicy: policyCheck(services, actions),
      testPolicy: policyTesting(),
      holder,
      compile: { services, actions, persistentState: new PersistentState() },
      operatorKeys: { accepts: async () => false },
      endedSessions: new EndedSessions(clock),
      baseUrl: () => 'https://api.test',
      zone: ZONE,
      regions: ['global']
    })
    const control = plane.serviceAccount
    const outbound = createOutbound({
      clock,
      allowPrivate: true,
      ...(setup.ca === undefined ? {} : { authorities: [setup.ca] })
    })
    const certificates = new Certificates({
      control,
      challenges: new ChallengeTable(),
      outbound,
      authority,
      clock,
      waitUntil: async (moment) => clock.advance(Math.max(0, moment - clock.monotonic())),
      watch: new AddressWatch({ clock, lookup: setup.lookup ?? (async () => []), addresses: ['192.0.2.1'] }),
      shared: true,
      hasTls: () => setup.tls === true,
      random: () => 0.5,
      log,
      regions: ['global', 'eu'],
      dns
    })
    const managed = new Managed({ plane, control, certificates, holder, clock, log })
    t.teardown(async () => {
      await managed.stop()
      outbound.close()
    })
    return managed
  }

  /** As a process ends, once. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  /** As a user writes it by the API. */
  async create(kind: string, body: object): Promise<ResourceRecord> {
    const { edits, store, writer } = this.control
    const { record } = await edits.make(store, resourceOf(kind), {}, body, asUser())
    await writer.write(asUser(), {}, (draft) => draft.insert(resourceOf(kind), record))
    return record
  }

  async update(kind: string, id: string, body: object): Promise<void> {
    const { edits, writer } = this.control
    const resource = resourceOf(kind)
    await writer.write(asUser(), {}, async (draft) => {
      const current = await edits.find(draft.tx, resource, { id })
      const read = readUpdate(resource, current.record, body, edits.readOptions({ id }, asUser()))
      await draft.update(resource, current, await edits.change(draft.tx, resource, current.record, read, asUser()))
    })
  }

  async remove(kind: string, id: string): Promise<void> {
    await this.control.writer.write(asUser(), {}, async (draft) => draft.remove(await this.get(kind, id)))
  }

  async get(kind: string, id: string): Promise<ResourceRecord> {
    const found = await this.control.records.find(this.control.store, kind, id)
    if (found === undefined) throw new Error(`no ${kind} ${id}`)
    return found.record
  }

  async status(kind: string, id: string): Promise<ManagementStatus | null> {
    return (await this.get(kind, id)).body.certificate_management_status as ManagementStatus | null
  }

  /** Goes on, with a clock that moves with each step, until the record is as it should be. Fails after a while. */
  async until(kind: string, id: string, isDone: (record: ResourceRecord) => boolean): Promise<ResourceRecord> {
    for (let step = 0; step < 1_500; step++) {
      await this.certificates.tick()
      const record = await this.get(kind, id)
      if (isDone(record)) return record
      this.clock.advance(2_000)
    }
    throw new Error(`never: ${JSON.stringify(await this.status(kind, id))}`)
  }

  /** The certificate that a name presents, as the data plane looks it up. */
  presented(name: string) {
    return this.holder.current().tables.certificates.find(name, this.clock.wall())
  }

  async #stop(): Promise<void> {
    await this.certificates.close()
    await this.plane.close()
  }
}

export const isIssued = ({ body }: ResourceRecord) => body.certificate !== null && jobOf(body) === null
export const hasFailed = ({ body }: ResourceRecord) => jobOf(body)?.error_code != null

function jobOf(body: ResourceRecord['body']) {
  return (body.certificate_management_status as ManagementStatus | null)?.provisioning_job ?? null
}

function resourceOf(kind: string): Resource {
  const found = resources.find(({ name }) => name === kind)
  if (found === undefined) throw new RangeError(`no resource ${kind}`)
  return found
}

/** A call of a user of the account. */
export function asUser(): Call {
  const principal = { id: 'usr_test', role: 'administrator' as const, subject: 'test', key: null }
  return { principal, address: undefined, operationId: operation() }
}

/** Where an authority asks for http-01, as the data plane answers it. */
export async function startHttp(t: Test, asked: () => Certificates | undefined): Promise<number> {
  const server = createServer((request, response) => {
    const host = (request.headers.host ?? '').split(':')[0] ?? ''
    const answer = asked()?.challenges.answer(host, request.url ?? '')
    if (answer === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(answer)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/** The name server of a process. */
export async function startDns(t: Test, managed: Managed): Promise<number> {
  const { certificates } = managed
  const zones = new Zones({
    apex: `acme.${ZONE}`,
    servers: [`ns1.${ZONE}`, `ns2.${ZONE}`],
    addresses: ['192.0.2.1', '2001:db8::1'],
    content: {
      domains: () => certificates.delegated(),
      texts: (name) => certificates.challenges.texts(name),
      isAgentHost: (name) => certificates.isAgentHost(name)
    }
  })
  const listener = await openDnsListener(
    { host: '127.0.0.1', port: 0 },
    { answer: (query) => zones.answer(query), log: managed.log }
  )
  t.teardown(() => listener.close())
  return listener.address.port
}
