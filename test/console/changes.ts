/** A session's work of every kind that a snapshot has to carry, and a listing that shows all of it. Shell, for any guest. */

/** What of the base image the session works on; absolute paths. */
export interface BaseNames {
  readonly fileDeleted: string;
  readonly fileRenamed: string;
  readonly directoryDeleted: string;
  readonly directoryReplaced: string;
}

/** Run as root in a session; needs a POSIX shell, coreutils or busybox. */
export const makeChanges = (base: BaseNames) => `
set -e
mkdir -p /root/w; cd /root/w
echo carried > kept; chmod 4755 kept; ln kept hard
ln -s /etc/passwd symbolic; ln -s no/where dangling
mkdir dir empty; chmod 711 dir; chown 3000000:70000 dir; chmod 1777 empty
touch -d '2001-02-03 04:05:06' dir/old; touch -d '1965-01-01 00:00:00' before-the-epoch; touch -d '2050-06-01 00:00:00' far-away
chmod 000 dir/old
mkfifo -m 640 fifo; mknod null c 1 3; mknod block b 259 300
truncate -s 5G sparse; echo middle | dd of=sparse bs=1 seek=3000000000 conv=notrunc 2>/dev/null
touch ".wh.own-name" "with space" "$(printf 'bad\\377name')" "$(printf 'new\\nline')"
ln -s "$(printf 'to\\376')" bad-link
name=$(printf 'n%.0s' $(seq 200)); mkdir -p "$name/$name"; echo deep > "$name/$name/$name"
head -c 300000 /dev/urandom > random; : > nothing
sed -i 's/^root:/root:/' /etc/passwd; echo '# changed' >> /etc/passwd
rm ${base.fileDeleted}
mv ${base.fileRenamed} ${base.fileRenamed}.renamed
rm -r ${base.directoryDeleted}
rm -r ${base.directoryReplaced}; mkdir ${base.directoryReplaced}; echo only > ${base.directoryReplaced}/only
`;

/** Prints what of the session's work can be told apart: one line a file, content as a checksum. */
export const listChanges = (base: BaseNames) => `
cd /
list() {
  find "$@" | LC_ALL=C sort | while IFS= read -r path; do
    if [ -d "$path" ] && [ ! -L "$path" ]; then
      # Links and size of a directory are its filesystem's business.
      stat -c '%N %A %u %g %Y %y' "$path"
    else
      stat -c '%N %A %u %g %h %s %t:%T %Y %y' "$path"
    fi
    [ -f "$path" ] && [ ! -L "$path" ] && [ "$(stat -c %s "$path")" -lt 100000000 ] && sha256sum "$path"
  done
  true
}
list root/w ${base.directoryReplaced} ${base.fileRenamed}.renamed etc/passwd
ls -A etc ${base.fileRenamed.slice(0, base.fileRenamed.lastIndexOf("/"))}
tail -n 1 etc/passwd
dd if=root/w/sparse bs=1 skip=3000000000 count=7 2>/dev/null; du -k root/w/sparse | cut -f1
[ root/w/kept -ef root/w/hard ] && echo one file
for path in ${base.fileDeleted} ${base.fileRenamed} ${base.directoryDeleted}; do [ -e "$path" ] || echo gone; done
`;
