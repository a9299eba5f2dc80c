import { defineField, type Field, type ResourceRecord } from '../field.js'
import { text } from '../fields.js'
import { module } from '../objects.js'

const DESCRIPTION = 'A traffic policy document, YAML or JSON.'
/** Name of the module wherever a resource has it. */
export const POLICY_MODULE = 'traffic_policy'
const MAX_DOCUMENT = 1024 * 1024

/** Runs a policy document. `layer`: the kind of traffic that it sees. */
export function trafficPolicyModule(layer: 'http' | 'tcp') {
  return module('Runs a traffic policy document.', { value: policyDocument(layer) })
}

/** The policy document that a record holds; undefined when it holds none. */
export function policyTextOf({ body }: Pick<ResourceRecord, 'body'>): string | undefined {
  return (body[POLICY_MODULE] as { readonly value: string } | null | undefined)?.value
}

function policyDocument(layer: 'http' | 'tcp'): Field<string> {
  const value = text({ description: DESCRIPTION, bytes: MAX_DOCUMENT, required: true })
  return defineField<string>({
    ...value,
    read(written, at, path, reading) {
      const document = value.read(written, at, path, reading)
      if (document === undefined) return undefined
      const problems = reading.checkPolicy(document, layer) ?? []
      if (problems.length === 0) return document
      for (const problem of problems) reading.report({ ...problem, field: at })
      return undefined
    }
  })
}
