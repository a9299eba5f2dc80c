import { POLICY_DEFINITION, SITE_FILE } from './fields.js'

/**
 * Returns the JSON Schema of site files, for editors; fields of the API have the API's schemas. `documents`: schema of
 * policy documents.
 */
export function siteFileSchema(documents: object): object {
  const { $schema, $defs, ...document } = documents as Readonly<Record<string, unknown>>
  return { $schema, $defs: { ...($defs as object), [POLICY_DEFINITION]: document }, ...SITE_FILE.schema }
}
