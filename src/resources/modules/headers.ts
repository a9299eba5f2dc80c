import { map, texts } from '../fields.js'
import type { RuleView } from '../members.js'
import { module } from '../objects.js'

const MAX_HEADERS = 50

/** Adds and removes header fields of requests or responses. */
export function headersModule(of: 'requests' | 'responses') {
  return module(
    `Adds and removes header fields of ${of}. Names come back in lower case.`,
    {
      add: map<string>({
        description: 'Names and values to add.',
        keys: 'header_name',
        values: { type: 'string', maxLength: 4096, 'x-max-bytes': 4096, 'x-form': 'header_value' },
        max: MAX_HEADERS
      }),
      remove: texts({ description: 'Names to remove.', form: 'header_name', max: MAX_HEADERS, distinct: true })
    },
    [{ on: ['add', 'remove'], check: once }]
  )
}

function once({ body, report }: RuleView): void {
  const both = (body.remove as readonly string[]).find((name) => Object.hasOwn(body.add as object, name))
  if (both !== undefined) report('remove', 'CONFLICTING_FIELDS', `must not hold ${both}, which is added`)
}
