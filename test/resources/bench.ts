import { randomBytes } from 'node:crypto'
import { policyCheck } from '../../src/app/policy-check.js'
import { offline, policyServices } from '../../src/app/services.js'
import { actions } from '../../src/features/registry.js'
import { newId } from '../../src/lib/id.js'
import type { Json } from '../../src/lib/json.js'
import {
  createRecord,
  type Input,
  type Read,
  type ReadOptions,
  readCreate,
  readUpdate,
  updateRecord,
  type Written
} from '../../src/resources/read.js'
import type { Resource } from '../../src/resources/resource.js'
import { generateSshKey } from '../../src/resources/ssh-key.js'
import type { Makers, PresentContext, ResourceRecord } from '../../src/schema/field.js'
import { ManualClock } from '../helpers/clock.js'

export const clock = new ManualClock()

/** An id of the form that records of this prefix have, the same for the same number. */
export const idOf = (prefix: string, number = 1) => `${prefix}_${String(number).padStart(27, '0')}`

export const EDGE = idOf('edghts')
/** Path of every request here, as if it went to a route of one edge. */
export const options: ReadOptions = {
  checkPolicy: policyCheck(policyServices(offline(actions)), actions),
  path: { edge_id: EDGE }
}

const sshAuthority = await generateSshKey({ type: 'ed25519' })

export const makers: Makers = {
  clock,
  newId: (prefix) => newId(prefix, clock.wall()),
  random: randomBytes,
  principal: idOf('usr'),
  zone: 'sluice.localhost',
  find: async (kind, id) => ({
    kind,
    id,
    createdAt: '2026-01-01T00:00:00Z',
    body: {
      subject_alternative_names: { dns_names: ['*.example.com', 'a.test', 'b.test'], ips: [] },
      not_before: '2000-01-01T00:00:00Z',
      not_after: '2100-01-01T00:00:00Z'
    },
    secrets: { private_key: sshAuthority.privateKey }
  })
}

export const context: PresentContext = {
  baseUrl: 'https://api.example.com',
  zone: 'sluice.localhost',
  regions: ['global', 'eu'],
  showSecrets: () => false,
  children: () => [],
  tunnelsOf: () => [idOf('tn')]
}

export function input(read: Read): Input {
  if (read.ok) return read.input
  throw new Error(JSON.stringify(read.problems))
}

export function written(result: Written): { record: ResourceRecord; once: Readonly<Record<string, Json>> } {
  if (result.ok) return result
  throw new Error(JSON.stringify(result.problems))
}

export async function created(resource: Resource, body: unknown) {
  return written(await createRecord(resource, input(readCreate(resource, body, options)), makers))
}

export async function updated(resource: Resource, current: ResourceRecord, body: unknown): Promise<ResourceRecord> {
  return written(await updateRecord(resource, current, input(readUpdate(resource, current, body, options)), makers))
    .record
}

/** `field code` of every problem. */
export function problemsOf(read: Read | Written): string[] {
  return read.ok ? [] : read.problems.map(({ field, code }) => `${field} ${code}`)
}
