import { described } from './fields.js'
import { defineResource } from './resource.js'

/** A set of IP rules. It restricts nothing until an IP restriction or a module refers to it. */
export const ipPolicy = defineResource({
  name: 'ip_policy',
  description: 'A set of IP policy rules. It restricts no traffic until an IP restriction or a module refers to it.',
  path: '/ip_policies',
  listKey: 'ip_policies',
  idPrefix: 'ipp',
  events: 'ip_policy',
  fields: { ...described }
})
