import { POLICY_MODULE, policyTextOf } from '../features/traffic-policy.js'
import type { Problem, UnitProblems } from '../policy/problems.js'
import type { UnitName } from '../policy/scope.js'
import { vaultsOf } from '../policy/vaults.js'
import { tcpEdge } from '../resources/edges.js'
import type { RecordOf } from '../resources/resource.js'
import { EVERY_MEMBER, VAULT_NAMES, type vault } from '../resources/vaults.js'
import type { CompileOptions } from '../runtime/compile.js'
import type { Unit } from '../runtime/plan.js'
import type { Snapshot } from '../runtime/snapshot.js'
import type { ResourceRecord } from '../schema/field.js'
import type { StoreReader } from '../store/store.js'
import type { PolicyWarning, Principal } from './calls.js'
import { ControlError, controlErrors } from './errors.js'

/**
 * What the author of a policy should know: the warnings of the compiler, and what they name and `snapshot`, which serves next,
 * does not have. No reason to refuse them: what is named may come later.
 */
export function policyWarnings(
  put: readonly (readonly [key: string, unit: Unit])[],
  compiled: readonly UnitProblems[],
  snapshot: Snapshot
): readonly PolicyWarning[] {
  const told = compiled.flatMap(({ problems }) => problems)
  const missing = put.flatMap(([key]) =>
    (snapshot.policy(key)?.named ?? []).filter(({ unit }) => !isThere(unit, snapshot)).map((one) => one.missing)
  )
  return [...told, ...missing].map(shown)
}

function isThere(unit: UnitName, snapshot: Snapshot): boolean {
  switch (unit.kind) {
    case 'secret':
      return snapshot.secret(unit.vault, unit.name) !== undefined
    case 'ip-policy':
      return snapshot.ipPolicy(unit.id) !== undefined
    case 'internal':
      return snapshot.hasInternal(unit.layer, unit.host, unit.port)
  }
}

function shown({ code, message, path, line, column }: Problem): PolicyWarning {
  return { code, message, path, line, column }
}

/**
 * Fails with `VAULT_NOT_ALLOWED` when the record gets a policy that reads secrets of a vault which the caller may not use.
 * A policy that the record had already stays, whatever else the write changes.
 */
export async function mayUseVaults(
  reader: StoreReader,
  principal: Principal,
  { services, actions }: Pick<CompileOptions, 'services' | 'actions'>,
  before: ResourceRecord | undefined,
  after: ResourceRecord
): Promise<void> {
  if (principal.role === 'administrator') return
  const text = policyTextOf(after)
  if (text === undefined || (before !== undefined && policyTextOf(before) === text)) return
  const carrier = after.kind === tcpEdge.name ? 'tcp' : 'http'
  for (const vault of vaultsOf(text, { services, actions, carrier })) {
    if (vault === undefined) refuse('the policy must name the vaults of its secrets as texts, because', 'any vault')
    if (!(await mayUse(reader, principal, vault)))
      refuse(`the policy reads a secret of the vault "${vault}", and`, 'it')
  }
}

function refuse(why: string, what: string): never {
  const message = `${why} only an administrator may use ${what}; usable_by of a vault says who else may`
  throw new ControlError(controlErrors.VAULT_NOT_ALLOWED, message, { field: `${POLICY_MODULE}.value` })
}

async function mayUse(reader: StoreReader, { id }: Principal, name: string): Promise<boolean> {
  const keeper = await reader.keeperOf(VAULT_NAMES, name)
  const stored = keeper === undefined ? undefined : await reader.get(keeper.kind, keeper.id)
  const { usable_by: users = [] } = (stored?.body ?? {}) as unknown as Partial<RecordOf<typeof vault>['body']>
  return users.includes(id) || users.includes(EVERY_MEMBER)
}
