#!/usr/bin/env bash
# Makes what GridFTP's security needs for a test, in DIRECTORY: an authority, one certificate for servers and client, and the
# map to this user. Prints the variables that have Globus use them. globus-url-copy sends a stack (-dcstack) to a server
# only where it authenticates the data channel: gsiftp:// with credentials, without -nodcau.
#
# Usage: eval "$(scripts/globus-credentials.sh DIRECTORY)"
set -euo pipefail
at=$(realpath -m "$1")
mkdir -p "$at/authorities"
{
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/O=fobs/CN=authority" -keyout "$at/authority.key" \
        -out "$at/authority.pem" -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign
    openssl req -newkey rsa:2048 -nodes -subj "/O=fobs/CN=test" -keyout "$at/key.pem" -out "$at/request.pem"
    openssl x509 -req -in "$at/request.pem" -CA "$at/authority.pem" -CAkey "$at/authority.key" -CAcreateserial -days 2 \
        -out "$at/certificate.pem" -extfile <(echo keyUsage=critical,digitalSignature,keyEncipherment)
} 2>"$at/said" || { cat "$at/said" >&2 && exit 1; }
chmod 600 "$at/key.pem"
hash=$(openssl x509 -in "$at/authority.pem" -noout -hash)
cp "$at/authority.pem" "$at/authorities/$hash.0"
printf "access_id_CA X509 '/O=fobs/CN=authority'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=fobs/*\"'\n" \
    >"$at/authorities/$hash.signing_policy"
printf '"/O=fobs/CN=test" %s\n' "$(id -un)" >"$at/map"
printf 'export X509_CERT_DIR=%q X509_USER_CERT=%q X509_USER_KEY=%q GRIDMAP=%q\n' \
    "$at/authorities" "$at/certificate.pem" "$at/key.pem" "$at/map"
