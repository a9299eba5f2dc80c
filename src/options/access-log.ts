import { choice, fraction, optional, text } from '../schema/values.js'
import * as option from './values.js'

/** What is written of each exchange, and where. */
export const accessLog = {
  access_log: option.switched({ description: 'One line for each exchange.', default: 'on' }),
  access_log_sample: fraction({
    description: 'Which share of the exchanges is logged, 0 to 1.',
    default: 1
  }),
  access_log_where: optional(
    text({
      description:
        'CEL: which exchanges are logged, by the variables of policies at their end, such as res.status_code >= 400 || ' +
        'rand.double() < 0.01. Those that fail (no answer, or from 500) always are.'
    })
  ),
  access_log_format: choice(['json', 'combined'], {
    description: 'json: one object a line. combined: the line of that name of Apache and nginx.',
    default: 'json'
  }),
  access_log_fields: optional(
    text({
      description:
        'Names of fields with commas between, in their order, such as status,method,path: of json only these are written.'
    })
  ),
  access_log_file: optional(
    option.file({
      description: 'A file in place of standard output. It is opened anew on SIGUSR1, for programs that rotate files.'
    })
  ),
  access_log_syslog: optional(
    option.address({
      description: 'UDP address of a syslog server (RFC 5424, RFC 5426) in place of standard output: host:port.'
    })
  )
}
