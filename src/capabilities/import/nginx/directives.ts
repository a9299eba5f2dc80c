import { close, EXACT, notHere, type Verdict } from '../model.js'

/** Directives whose work Sluice does by itself, or that change no answer: tuning, buffers, processes. */
const EXACT_WITHOUT_CONVERSION = new Set(
  `aio chunked_transfer_encoding connection_pool_size directio directio_alignment events etag http if_modified_since
  ignore_invalid_headers include keepalive_disable keepalive_requests large_client_header_buffers load_module
  client_body_buffer_size client_body_in_file_only client_body_in_single_buffer client_body_temp_path client_header_buffer_size
  daemon gzip_buffers gzip_disable gzip_http_version gzip_vary limit_req_log_level lingering_close lingering_time
  lingering_timeout map_hash_bucket_size map_hash_max_size master_process max_ranges merge_slashes multi_accept open_file_cache
  open_file_cache_errors open_file_cache_min_uses open_file_cache_valid output_buffers pcre_jit pid postpone_output
  proxy_buffer_size proxy_buffering proxy_buffers proxy_busy_buffers_size proxy_headers_hash_bucket_size
  proxy_headers_hash_max_size proxy_http_version proxy_max_temp_file_size proxy_request_buffering proxy_socket_keepalive
  proxy_temp_file_write_size proxy_temp_path read_ahead recursive_error_pages request_pool_size reset_timedout_connection
  resolver resolver_timeout sendfile sendfile_max_chunk server_name_in_redirect server_names_hash_bucket_size
  server_names_hash_max_size ssl_buffer_size ssl_dhparam ssl_ecdh_curve ssl_session_cache ssl_session_ticket_key
  ssl_session_tickets ssl_session_timeout tcp_nodelay tcp_nopush thread_pool types_hash_bucket_size types_hash_max_size
  underscores_in_headers use user variables_hash_bucket_size variables_hash_max_size worker_connections worker_cpu_affinity
  worker_priority worker_processes worker_rlimit_core worker_rlimit_nofile worker_shutdown_timeout zone keepalive
  keepalive_time http2 http2_max_concurrent_streams ssl proxy_ssl_session_reuse upstream server location env timer_resolution
  accept_mutex working_directory lock_file limit_conn_log_level log_not_found log_subrequest grpc_buffer_size`.split(
    /\s+/
  )
)

const CLOSE: Readonly<Record<string, string>> = {
  access_log: 'the access log is an option of the process: access_log_format, access_log_file',
  log_format: 'the access log is an option of the process; it knows JSON and combined',
  error_log: 'the log of the process goes to standard output or standard error',
  absolute_redirect: 'redirects of Sluice are absolute URLs',
  autoindex_exact_size: 'lists of folders have one form',
  autoindex_format: 'lists of folders are HTML',
  autoindex_localtime: 'lists of folders have one form',
  charset: 'the upstream or the type of the file says the charset',
  client_body_timeout: 'an option of the process: timeouts.request_body',
  client_header_timeout: 'an option of the process: timeouts.headers',
  default_type: 'files without a known type are application/octet-stream',
  disable_symlinks: 'symbolic links leave the folder of static files only if it is allowed',
  gzip_comp_level: 'the level is chosen by Sluice',
  gzip_min_length: 'the shortest compressed body is chosen by Sluice',
  gzip_proxied: 'responses are compressed whatever proxy the request came through',
  gzip_static: 'precompressed files are found by the static files of Sluice',
  gzip_types: 'Sluice compresses all compressible types',
  keepalive_timeout: 'an option of the process: timeouts.keep_alive',
  port_in_redirect: 'redirects have the port that the client used',
  proxy_headers: 'fields of the request pass as they are',
  proxy_next_upstream: 'retries are a field of backends: retries.on; by default only failed connections are retried',
  proxy_next_upstream_timeout: 'retries are a field of backends',
  proxy_next_upstream_tries: 'retries are a field of backends: retries.attempts',
  proxy_redirect:
    'Location of the upstream passes as it is; the upstream gets the host of the client, so that it can name it',
  proxy_ssl_protocols: 'TLS 1.2 and 1.3 are used',
  proxy_ssl_server_name: 'the name of the server is always sent',
  proxy_ssl_ciphers: 'the cipher suites are those of Node',
  send_timeout: 'the idle time of the backend counts',
  server_tokens: 'Sluice sends no Server field of its own',
  ssl_ciphers: 'the cipher suites are those of Node',
  ssl_prefer_server_ciphers: 'the cipher suites are those of Node',
  ssl_stapling: 'OCSP is not stapled; authorities end the service',
  ssl_stapling_verify: 'OCSP is not stapled; authorities end the service',
  ssl_trusted_certificate: 'it is for OCSP alone',
  types: 'the type of a file follows from its name by the table of Sluice',
  real_ip_header: 'X-Forwarded-For and Forwarded of trusted peers are read',
  real_ip_recursive: 'trusted addresses are skipped from the right',
  set_real_ip_from: 'an option of the process: trusted_proxies'
}

const PHP = 'serve it by an HTTP server, such as FrankenPHP or Apache, and name that as the backend'
const NOT_HERE: Readonly<Record<string, readonly [reason: string, instead: string]>> = {
  fastcgi_pass: ['Sluice does not speak FastCGI', PHP],
  uwsgi_pass: [
    'Sluice does not speak the protocol uwsgi',
    'let uWSGI listen with --http-socket, and name that as the backend'
  ],
  scgi_pass: ['Sluice does not speak SCGI', 'serve it by an HTTP server, and name that as the backend'],
  memcached_pass: ['Sluice does not speak to memcached', 'serve it by an HTTP server'],
  stub_status: ['Sluice has no such page', 'read GET /metrics of the management API'],
  stream: ['its blocks have another grammar', 'write TCP edges below "tcp" of the site file'],
  mail: ['Sluice is no mail proxy', 'keep the old server for mail'],
  auth_request: ['a subrequest decides', 'use the action http-request, and deny by its result'],
  auth_request_set: ['a subrequest decides', 'use the action http-request, whose result later rules read'],
  geo: ['networks are mapped to values', 'write an expression with conn.client_ip.inCidrRange'],
  geoip2: ['another database is read', 'use conn.client_ip.geo of expressions'],
  split_clients: [
    'a share of clients gets another value',
    'give servers of a backend weights, or use hash.crc32 in an expression'
  ],
  limit_conn: ['connections of one client are counted', 'use rate-limit, or the options limits.* of the process'],
  limit_conn_zone: ['connections of one client are counted', 'use rate-limit, or the options limits.* of the process'],
  limit_rate: ['the speed of an answer is not limited', 'limit it in the upstream'],
  limit_rate_after: ['the speed of an answer is not limited', 'limit it in the upstream'],
  sub_filter: ['texts of answers are replaced', 'use the action response-body-find-replace'],
  sub_filter_once: ['texts of answers are replaced', 'use the action response-body-find-replace'],
  sub_filter_types: ['texts of answers are replaced', 'use the action response-body-find-replace'],
  mirror: ['requests are copied to another server', 'compare policies with a shadow (docs/shadow.md)'],
  perl: ['code runs in the server', 'write an expression'],
  js_content: ['code runs in the server', 'write an expression, or serve it by an upstream'],
  secure_link: ['signed links are checked', 'write an expression with hash.md5'],
  secure_link_md5: ['signed links are checked', 'write an expression with hash.md5'],
  valid_referers: ['a variable follows from Referer', "write an expression with getReqHeader('referer')"],
  addition_types: ['answers are joined', 'do it in the upstream'],
  satisfy: ['one of several checks is enough', 'write both conditions into one expression'],
  ssl_verify_depth: ['the depth is not limited', 'trust only the authority that signs clients'],
  ssl_crl: ['revocation lists stand at the authority', 'write certificate_authorities: { name: { ca: …, crl: … } }'],
  proxy_method: ['the method stays that of the client', 'change it in the upstream'],
  proxy_pass_request_body: ['the body is always sent', 'remove it'],
  proxy_set_body: ['the body is always that of the client', 'use request-body-find-replace'],
  proxy_cookie_path: ['cookies of answers pass as they are', 'let the upstream write the path of its cookies'],
  proxy_cookie_domain: ['cookies of answers pass as they are', 'let the upstream write the domain of its cookies'],
  proxy_cookie_flags: ['cookies of answers pass as they are', 'let the upstream write the flags of its cookies'],
  proxy_intercept_errors: ['answers of upstreams are not replaced by files', 'use custom-response in on_http_response']
}

/** Groups of directives by the beginning of their names. */
const BY_PREFIX: readonly (readonly [prefix: string, Verdict])[] = [
  ['fastcgi_', notHere('it belongs to fastcgi_pass', 'remove it')],
  ['uwsgi_', notHere('it belongs to uwsgi_pass', 'remove it')],
  ['scgi_', notHere('it belongs to scgi_pass', 'remove it')],
  [
    'proxy_cache',
    notHere('Sluice has no shared cache', 'put a cache before or behind it, or use Cache-Control for clients')
  ],
  ['proxy_ignore_headers', notHere('it belongs to the cache', 'remove it')],
  ['proxy_no_cache', notHere('Sluice has no shared cache', 'remove it')],
  ['geoip', notHere('another database is read', 'use conn.client_ip.geo of expressions')],
  ['brotli', close('the module compression has br beside gzip')],
  ['http2_', EXACT],
  ['http3', notHere('Sluice does not speak HTTP/3', 'clients use HTTP/2 by themselves')],
  ['quic_', notHere('Sluice does not speak HTTP/3', 'clients use HTTP/2 by themselves')],
  ['dav_', notHere('Sluice writes no files', 'serve WebDAV by an upstream')],
  ['mp4', notHere('Sluice serves files as they are', 'remove it')],
  ['modsecurity', notHere('Sluice has no ModSecurity', 'write expressions with deny')],
  ['passenger_', notHere('Sluice starts no applications', 'start the application, and name it as the backend')]
]

/** Verdict of a directive that no part of the reader has judged. */
export function usualVerdict(name: string): Verdict {
  if (EXACT_WITHOUT_CONVERSION.has(name) || name.endsWith('_temp_path')) return EXACT
  const difference = Object.hasOwn(CLOSE, name) ? CLOSE[name] : undefined
  if (difference !== undefined) return close(difference)
  const refused = Object.hasOwn(NOT_HERE, name) ? NOT_HERE[name] : undefined
  if (refused !== undefined) return notHere(...refused)
  const group = BY_PREFIX.find(([prefix]) => name.startsWith(prefix))
  if (group !== undefined) return group[1]
  if (name.includes('_by_lua'))
    return notHere('code runs in the server', 'write an expression, or serve it by an upstream')
  return notHere('Sluice knows no such directive', 'see docs/policies.md for what policies can do')
}
