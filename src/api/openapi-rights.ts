import { ACCOUNT_RIGHTS, memberRights, type Right } from '../control/rights.js'
import type { Resource } from '../resources/resource.js'

const COLUMNS: readonly Right[] = ['read', 'create', 'update', 'delete', 'secrets', 'command']

/** The table of rights, in Markdown, for people who read the description of the API. */
export function rightsText(resources: readonly Resource[]): string {
  const rows = resources.map((resource) => {
    const rights = memberRights(resource)
    const { field = '', values = [] } = rights.reserved ?? {}
    const besides = values.length === 0 ? '' : `not where ${field} is ${values.join(' or ')}`
    return `| ${[resource.name, ...COLUMNS.map((right) => rights[right]), besides].join(' | ')} |`
  })
  const refusals = Object.values(ACCOUNT_RIGHTS).map(({ refusal }) => `- ${refusal}`)
  return [
    '## Rights',
    '',
    'Administrators may do everything. Members, which bots are, may do what this table says: to `any` record, to their `own` ' +
      '(those whose `owner_id` they are), or to `none`. `secrets` are those that answers show to their owner; `command` are ' +
      'commands to connected agents, whose owner is that of their credential. Anything else is refused with ' +
      '`ERR_SLUICE_ADMIN_REQUIRED`.',
    '',
    `| resource | ${COLUMNS.join(' | ')} | besides |`,
    `| --- |${' --- |'.repeat(COLUMNS.length + 1)}`,
    ...rows,
    '',
    ...refusals,
    '- only an administrator may change what decides by address who reaches this API or its pages, rules of IP policies included',
    '- a policy of a member reads secrets only of vaults that the member may use (`usable_by` of the vault); else `ERR_SLUICE_VAULT_NOT_ALLOWED`'
  ].join('\n')
}
