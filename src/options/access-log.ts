import { choice, fraction, optional, text } from '../schema/values.js'
import * as option from './values.js'

/** Options of the access log. */
export const accessLog = {
  access_log: option.switched({ description: 'Write an access log, one line for each request.', default: 'on' }),
  access_log_sample: fraction({
    description: 'Share of requests that is logged, 0 to 1.',
    default: 1
  }),
  access_log_where: optional(
    text({
      description:
        'CEL condition on finished requests: which ones are logged, such as res.status_code >= 400 || rand.double() < 0.01. ' +
        'Failed requests (no response, or 5xx) are always logged.'
    })
  ),
  access_log_format: choice(['json', 'combined'], {
    description: 'json: one object a line. combined: the combined log format of Apache and nginx.',
    default: 'json'
  }),
  access_log_fields: optional(
    text({
      description: 'Fields of the JSON format to write, in this order, separated by commas, such as status,method,path.'
    })
  ),
  access_log_file: optional(
    option.file({
      description: 'File for the access log, instead of standard output. SIGUSR1 reopens it (logrotate).'
    })
  ),
  access_log_syslog: optional(
    option.address({
      description: 'UDP address host:port of a syslog server (RFC 5424, RFC 5426), instead of standard output.'
    })
  )
}
