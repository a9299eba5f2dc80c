import { parseAuthority } from '../../lib/host.js'
import { refusalToRemove, refusalToWrite } from '../../policy/actions/header-rules.js'
import { map, texts } from '../fields.js'
import type { RuleView } from '../members.js'
import { module } from '../objects.js'

const MAX_HEADERS = 50

/** Removes and then adds header fields of requests or responses: a name in both is replaced. */
export function headersModule(of: 'requests' | 'responses') {
  return module(
    `Removes and then adds header fields of ${of}. Names come back in lower case.`,
    {
      add: map<string>({
        description: 'Names and values to add.',
        keys: 'header_name',
        values: { type: 'string', maxLength: 4096, 'x-max-bytes': 4096, 'x-form': 'header_value' },
        max: MAX_HEADERS
      }),
      remove: texts({ description: 'Names to remove.', form: 'header_name', max: MAX_HEADERS, distinct: true })
    },
    [{ on: ['add', 'remove'], check: whole }]
  )
}

/** Reports the names that no configuration may write. */
export function refuseUnwritable(
  headers: Readonly<Record<string, string>>,
  field: string,
  report: RuleView['report']
): void {
  for (const name of Object.keys(headers)) {
    const refusal = refusalToWrite(name)
    if (refusal !== undefined) report(field, 'FIELD_INVALID', refusal)
  }
}

/** What frames a message, or belongs to one hop, is not for users to write. */
function whole({ body, report }: RuleView): void {
  const add = body.add as Readonly<Record<string, string>>
  refuseUnwritable(add, 'add', report)
  for (const name of body.remove as readonly string[]) {
    const refusal = refusalToRemove(name)
    if (refusal !== undefined) report('remove', 'FIELD_INVALID', refusal)
  }
  if (Object.hasOwn(add, 'host') && parseAuthority(add.host as string) === undefined)
    report('add', 'FIELD_INVALID', 'the value of host must be a host with an optional port')
}
