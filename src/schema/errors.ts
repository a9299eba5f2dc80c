import { defineErrors } from '../lib/errors.js'

/** Codes for problems in a request's field. */
export const fieldErrors = defineErrors({
  FIELD_INVALID: {
    status: 400,
    text: 'A field has a value that is not allowed.',
    help: 'Give a value as the message describes it.',
    ngrok: [{ number: 1406, resource: 'ip_policy_rule', field: 'cidr' }]
  },
  FIELD_REQUIRED: { status: 400, text: 'A field that is required is missing or is cleared.', help: 'Give the field.' },
  FIELD_UNKNOWN: {
    status: 400,
    text: 'The body has a field that is not known here.',
    help: 'Remove or rename it; the message lists the fields.'
  },
  CONFLICTING_FIELDS: {
    status: 400,
    text: 'Two fields exclude each other, or one needs another one.',
    help: 'Give what the message asks for.'
  },
  IMMUTABLE: {
    status: 400,
    text: 'A field that is given at creation cannot be changed.',
    help: 'Leave the field out, or create another record.'
  },
  REF_INVALID: {
    status: 400,
    text: 'A field does not hold the id of a record of the right kind.',
    help: 'Give an id with the prefix that the message names.'
  },
  REF_NOT_FOUND: {
    status: 400,
    text: 'A field names a record that does not exist.',
    help: 'Create the record first, or correct the id.',
    ngrok: [{ number: 7117, field: 'hostports' }]
  },
  TOO_LONG: { status: 400, text: 'A text is longer than allowed.', help: 'Shorten it.' },
  TOO_MANY: {
    status: 400,
    text: 'A list has more entries than allowed.',
    help: 'Remove entries, or divide them among several records.'
  }
})

/** Code of a problem in a field. */
export type FieldCode = keyof typeof fieldErrors
